"""What published files call a tensor, and what we call it (docs/model.md 2).

Our names are naming family A without its leading "model."; family B is the older form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from photon.errors import ModelLoadError

_VISUAL = r"^vision_encoder\.encoder\.model\.visual\."
_LAYER = r"^text_model\.transformer\.h\.(\d+)\."
_BLOCK = r"text.blocks.\1."

FAMILY_B: tuple[tuple[str, str], ...] = (
    (_VISUAL + r"patch_embed\.linear\.", "vision.patch_emb."),
    (_VISUAL + r"pos_embed$", "vision.pos_emb"),
    (_VISUAL + r"blocks\.(\d+)\.norm([12])\.", r"vision.blocks.\1.ln\2."),
    (_VISUAL + r"blocks\.(\d+)\.(attn|mlp)\.", r"vision.blocks.\1.\2."),
    (_VISUAL + r"norm\.", "vision.post_ln."),
    (r"^vision_encoder\.projection\.mlp\.", "vision.proj_mlp."),
    (r"^text_model\.transformer\.embd\.wte\.weight$", "text.wte"),
    (r"^text_model\.lm_head\.ln\.", "text.post_ln."),
    (r"^text_model\.lm_head\.linear\.", "text.lm_head."),
    (_LAYER + r"mixer\.Wqkv\.", _BLOCK + "attn.qkv."),
    (_LAYER + r"mixer\.out_proj\.", _BLOCK + "attn.proj."),
    (_LAYER + r"tau_(wqwv|wq|wv|alpha)$", _BLOCK + r"attn.tau.\2"),
    (_LAYER + r"gate\.", _BLOCK + "mlp.router."),
    (_LAYER + r"mlp\.experts\.", _BLOCK + "mlp.fc1."),
    (_LAYER + r"mlp\.output_experts\.", _BLOCK + "mlp.fc2."),
    (_LAYER + r"(ln|mlp|moe_quant|kv_quantizer)\.", _BLOCK + r"\2."),
    (r"^region_model\.coordinate_encoder\.", "region.coord_encoder."),
    (r"^region_model\.coordinate_(decoder|head)\.", "region.coord_decoder."),
    (r"^region_model\.size_encoder\.", "region.size_encoder."),
    (r"^region_model\.size_(decoder|head)\.", "region.size_decoder."),
    (r"^region_model\.ln\.", "region.ln."),
    (r"^region_model\.coordinate_features\.weight$", "region.coord_features"),
    (r"^region_model\.size_features\.weight$", "region.size_features"),
)
_FAMILY_B = [(re.compile(pattern), replacement) for pattern, replacement in FAMILY_B]

TRANSPOSED_IN_B = frozenset({"region.coord_features", "region.size_features"})


def is_family_b(stored: Iterable[str]) -> bool:
    return any(_clean(name).startswith("text_model.transformer.") for name in stored)


def our_names(stored: Iterable[str]) -> dict[str, str]:
    """{our name: stored name}; a name that follows no rule stands for itself.

    Raises ModelLoadError when two stored names mean the same tensor.
    """
    clean = {name: _clean(name) for name in stored}
    family_b = is_family_b(clean)
    found: dict[str, str] = {}
    for name, stripped in clean.items():
        ours = _from_b(stripped) if family_b else stripped.removeprefix("model.")
        if ours in found:
            raise ModelLoadError(f"The tensors {found[ours]} and {name} mean the same parameter {ours}.")
        found[ours] = name
    return found


def _clean(name: str) -> str:
    """Without the residue that a compiled model leaves in names."""
    return name.replace("_orig_mod.", "")


def _from_b(name: str) -> str:
    for pattern, replacement in _FAMILY_B:
        renamed, count = pattern.subn(replacement, name)
        if count:
            return renamed
    return name
