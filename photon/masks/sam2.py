"""SAM 2.1: the mask of what a box holds (Ravi et al., 2024), by the implementation in `transformers`.

Resizing and normalisation are done here: the library's own processor needs torchvision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from photon.errors import ModelLoadError
from photon.masks import Box

if TYPE_CHECKING:
    from transformers import Sam2Model

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_BOXES_AT_ONCE = 16
"""A box takes some 10 MB of decoder features."""


class Sam2:
    """A loaded mask model. Calls may come from any one thread at a time."""

    def __init__(self, model: Sam2Model) -> None:
        self._model = model.eval().requires_grad_(False)
        self._side = int(model.config.prompt_encoder_config.image_size)
        self._device = next(model.parameters()).device

    @classmethod
    def load(cls, folder: Path, device: torch.device) -> Sam2:
        """Reads config.json and model.safetensors, in float32. Raises ModelLoadError naming the folder."""
        from transformers import Sam2Model

        try:
            with _quiet():
                model, report = Sam2Model.from_pretrained(
                    folder, local_files_only=True, output_loading_info=True, dtype=torch.float32
                )
        except Exception as error:  # the library raises many kinds
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ModelLoadError(f"The mask model in {folder} cannot be loaded: {reason}") from error
        if missing := sorted(report["missing_keys"]):
            raise ModelLoadError(
                f"The mask model in {folder} lacks the tensor {missing[0]} and {len(missing) - 1} more."
            )
        return cls(model.to(device))

    def masks(self, image: NDArray[np.uint8], boxes: Sequence[Box]) -> Iterator[NDArray[np.bool_]]:
        """uint8 [H, W, 3] and boxes in 0..1 -> one bool [side, side] a box, each over the whole picture."""
        with torch.no_grad():
            seen = self._model.get_image_embeddings(self.pixels(image).to(self._device))
        for start in range(0, len(boxes), _BOXES_AT_ONCE):
            yield from self._decode(seen, boxes[start : start + _BOXES_AT_ONCE]).cpu().numpy()

    def pixels(self, image: NDArray[np.uint8]) -> Tensor:
        """f32 [1, 3, side, side]: stretched to a square, as SAM was trained, and normalised."""
        square = Image.fromarray(image).resize((self._side, self._side), Image.Resampling.BILINEAR)
        scaled = torch.from_numpy(np.array(square)).float() / 255
        return ((scaled - torch.tensor(_MEAN)) / torch.tensor(_STD)).permute(2, 0, 1)[None]

    @torch.no_grad()
    def _decode(self, seen: list[Tensor], boxes: Sequence[Box]) -> Tensor:
        corners = [[b["x_min"], b["y_min"], b["x_max"], b["y_max"]] for b in boxes]
        prompt = torch.tensor([corners], dtype=torch.float32, device=self._device) * self._side
        found = self._model(image_embeddings=seen, input_boxes=prompt, multimask_output=False).pred_masks
        large = F.interpolate(found[0], (self._side, self._side), mode="bilinear", align_corners=False)
        return large[:, 0] > 0


@contextmanager
def _quiet() -> Iterator[None]:
    """Without progress bars, and without the warning that the published file is the video model's."""
    from transformers.utils import logging

    before: Any = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
