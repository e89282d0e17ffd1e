"""Gradio's own endpoints: one a skill, with a name, a description and examples; with `--mcp` they are its tools.

The docstrings below are what programs and assistants read about them, and the annotations too: so they stay unquoted.
"""

import asyncio
import inspect
from pathlib import Path
from typing import Any, Literal

import gradio as gr

from app.api.images import data_of
from app.api.listening import forget_caller, while_heard
from app.api.problems import ApiError, ClientGoneError
from app.engines.holder import NotReadyError
from app.engines.models import Models, UnknownModelError
from app.pictures.fetch import Fetcher
from app.pictures.uploads import read_upload
from photon import SKILLS, PhotonError, PictureError, PictureLimits, decode_picture

EXAMPLES = {
    "image": "https://example.com/picture.jpg",
    "object": "cat",
    "max_objects": 50,
    "question": "What is on the table?",
    "length": "normal",
    "model": "",
}


class EndpointBlocks(gr.Blocks):
    """A page whose endpoints take as few values as their descriptions say, also by a plain request."""

    def validate_inputs(self, block_fn: Any, inputs: list[Any]) -> None:
        """Adds the defaults of what was left out at the end. Raises gr.Error for what has none."""
        if block_fn.api_name in SKILLS:
            for name, given in list(inspect.signature(block_fn.fn).parameters.items())[len(inputs) :]:
                if given.default is inspect.Parameter.empty:
                    raise gr.Error(f"The value {name!r} of /{block_fn.api_name} is missing.", print_exception=False)
                inputs.append(given.default)
        super().validate_inputs(block_fn, inputs)


class Endpoints:
    """Questions of programs: each takes a picture and words, and returns the engine's answer as JSON."""

    def __init__(self, models: Models, limits: PictureLimits, fetcher: Fetcher, upload_folder: Path) -> None:
        self._models = models
        self._limits = limits
        self._fetcher = fetcher
        self._upload_folder = upload_folder.resolve()

    def add(self) -> None:
        """Add them to the page that is being built."""
        page = gr.context.Context.root_block
        for function in (self.point, self.detect, self.segment, self.query, self.caption):
            made = gr.api(function, api_name=function.__name__, concurrency_limit=None)
            names = function.__annotations__
            for name, given in zip(names, page.fns[made["id"]].inputs, strict=False):
                given.example_payload = lambda example=EXAMPLES[name]: example

    async def point(self, image: str, object: str, max_objects: int = 50, model: str = "") -> dict[str, Any]:
        """Find every object of a kind in a picture and give one point on each: {"points": [{"x", "y"}]}, in 0..1.

        Args:
            image: Address of the picture (https://...), or a data URL.
            object: What to look for, for example "cat".
            max_objects: The answer ends after this many.
            model: Name of one of the models of this server; its main one if empty.
        """
        return await self._ask(model, "point", image, object=object, settings={"max_objects": max_objects})

    async def detect(self, image: str, object: str, max_objects: int = 50, model: str = "") -> dict[str, Any]:
        """Find every object of a kind in a picture and give its box, in 0..1 of the picture.

        The answer is {"objects": [{"x_min", "y_min", "x_max", "y_max"}]}.

        Args:
            image: Address of the picture (https://...), or a data URL.
            object: What to look for, for example "cat".
            max_objects: The answer ends after this many.
            model: Name of one of the models of this server; its main one if empty.
        """
        return await self._ask(model, "detect", image, object=object, settings={"max_objects": max_objects})

    async def segment(self, image: str, object: str, model: str = "") -> dict[str, Any]:
        """Outline one object in a picture: {"svg_path", "bbox"}, a path in 0..1 of the box and the box in 0..1.

        Args:
            image: Address of the picture (https://...), or a data URL.
            object: What to look for, for example "cat".
            model: Name of one of the models of this server; its main one if empty.
        """
        return await self._ask(model, "segment", image, object=object)

    async def query(self, image: str, question: str, model: str = "") -> dict[str, Any]:
        """Answer a question about a picture in words: {"answer"}.

        Args:
            image: Address of the picture (https://...), or a data URL.
            question: The question.
            model: Name of one of the models of this server; its main one if empty.
        """
        return await self._ask(model, "query", image, question=question)

    async def caption(
        self, image: str, length: Literal["short", "normal", "long"] = "normal", model: str = ""
    ) -> dict[str, Any]:
        """Describe a picture in words: {"caption"}.

        Args:
            image: Address of the picture (https://...), or a data URL.
            length: "short", "normal" or "long".
            model: Name of one of the models of this server; its main one if empty.
        """
        return await self._ask(model, "caption", image, length=length)

    async def _ask(self, model: str, skill: str, image: Any, **arguments: Any) -> dict[str, Any]:
        """Raises gr.Error with the sentence of whatever refuses."""
        try:
            async with self._models.using(model or None) as holder:
                engine = holder.engine()
                about = engine.describe()
                if skill not in about["skills"]:
                    raise gr.Error(f"The model {about['model']} has no skill {skill!r}.", print_exception=False)
                encoded = await asyncio.to_thread(lambda: engine.encode_image(self._pixels(image)))
                answer = await while_heard(getattr(engine, f"a{skill}")(encoded, **arguments))
                return {**without_paths(answer), "finish_reason": answer.finish_reason}
        except (PictureError, ApiError, NotReadyError, UnknownModelError, PhotonError) as error:
            raise gr.Error(str(error), print_exception=False) from None
        except ClientGoneError:
            raise gr.Error("The client has left.", print_exception=False) from None  # nobody reads this
        finally:
            forget_caller()

    def _pixels(self, image: Any) -> Any:
        """Of an address, a data URL, or a file that a Gradio client uploaded. Raises PictureError and ApiError."""
        source = image.get("path") if isinstance(image, dict) else image
        if not isinstance(source, str):
            raise PictureError("The image is missing; an address (https://...) or a data URL is expected.")
        if source.startswith("data:"):
            data = data_of(source, self._limits)
        elif isinstance(image, dict) and Path(source).resolve().is_relative_to(self._upload_folder):
            return read_upload(Path(source), self._limits)
        else:
            data = self._fetcher.fetch(source).data
        return decode_picture(data, self._limits)


def without_paths(answer: Any) -> Any:
    """An answer in which no key is `path`: Gradio's clients take that for a file of the server, and fetch it."""
    if isinstance(answer, dict):
        return {"svg_path" if key == "path" else key: without_paths(value) for key, value in answer.items()}
    return [without_paths(value) for value in answer] if isinstance(answer, list) else answer
