"""`point`, `detect`, `segment`, `query` and `caption`: ask a model about a picture.

Torch is imported once the picture has been read: a mistyped path is told at once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from photon import PictureLimits, read_picture
from photon.commands.draw import draw
from photon.errors import InvalidRequestError

if TYPE_CHECKING:
    from photon import Metrics, Photon, Result, Stream

OBJECT_HELP = {
    "point": "where the objects are, a point each",
    "detect": "boxes around the objects",
    "segment": "outlines of the objects",
}
TEXT_HELP = {"query": "a question about the picture", "caption": "what the picture shows"}
LENGTHS = ("short", "normal", "long")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    for skill, about in {**OBJECT_HELP, **TEXT_HELP}.items():
        parser = commands.add_parser(skill, help=about, description=f"{about[0].upper()}{about[1:]}.")
        parser.add_argument("image", type=Path, metavar="IMAGE")
        if skill in OBJECT_HELP:
            parser.add_argument("text", metavar="OBJECT", help="what to look for, for example 'cat'")
            parser.add_argument("--draw", type=Path, metavar="OUT.png", help="write the picture with the answer on it")
            parser.add_argument("--max-objects", type=int, metavar="N")
        elif skill == "query":
            parser.add_argument("text", metavar="QUESTION")
            parser.add_argument("--reasoning", action="store_true", help="let the model think first")
        else:
            parser.add_argument("--length", dest="text", choices=LENGTHS, default="normal")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        parser.add_argument("--blocking", action="store_true", help="decode without the pipeline")
        parser.add_argument("--max-tokens", type=int, metavar="N")
        parser.add_argument("--model", default="photon-tiny", metavar="NAME", help="a name, a folder or a weight file")
        parser.add_argument("--device", default="auto", help="auto, cuda or cpu")
        parser.add_argument("--threads", type=int, metavar="N", help="CPU threads of the forward pass")
        parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    image = Image.fromarray(read_picture(options.image, PictureLimits()))
    from photon import EngineConfig, Photon

    with Photon.load(options.model, EngineConfig(device=options.device, threads=options.threads)) as model:
        if options.command in TEXT_HELP and not options.json:
            tell(_ask(model, image, options, stream=True))
            return
        result = _ask(model, image, options)
    if getattr(options, "draw", None):
        save(draw(image, result), options.draw)
    cut = {"finish_reason": "length"} if result.finish_reason == "length" else {}
    print(json.dumps(result | cut) if options.json else describe(options.command, options.text, result))


def _ask(model: Photon, image: Image.Image, options: argparse.Namespace, **more: Any) -> Result:
    settings = {name: getattr(options, name, None) for name in ("max_objects", "max_tokens")}
    if options.command == "query":
        more["reasoning"] = options.reasoning
    verb = getattr(model, options.command)
    result: Result = verb(image, options.text, settings=settings, pipelined=not options.blocking, **more)
    return result


def tell(answer: Mapping[str, Any]) -> None:
    """Print the pieces of a streamed answer as they come, then the times."""
    stream: Stream
    (stream,) = answer.values()
    for piece in stream:
        print(piece, end="", flush=True)
    whole = stream.result()
    print("\n" + "\n".join([*_if_cut(whole), times(whole.metrics)]))


def _if_cut(result: Result) -> list[str]:
    return ["Cut: the answer reached its limit of tokens."] if result.finish_reason == "length" else []


def save(image: Image.Image, path: Path) -> None:
    """Raises `InvalidRequestError` if the file cannot be written or its ending names no image format."""
    try:
        image.save(path)
    except (OSError, ValueError) as error:
        raise InvalidRequestError(f"The drawing cannot be written to {str(path)!r}: {error}.") from None


def describe(skill: str, name: str, result: Result) -> str:
    """A few lines for a person: what was found, and where the time went."""
    found = result["points"] if skill == "point" else result["objects"]
    lines = [f"{len(found)} x {name}" if found else f"No {name} found."]
    for item in found:
        values = item.get("bbox", item)
        lines.append("  " + "  ".join(f"{k} {v:.3f}" for k, v in values.items()))
    return "\n".join([*lines, *_if_cut(result), times(result.metrics)])


def times(m: Metrics) -> str:
    return (
        f"{m.mode}: {m.total_ms:.1f} ms in all; preprocessing {m.preprocess_ms:.1f}, "
        f"encoding {m.encode_ms:.1f}, queue {m.queue_ms:.1f}, "
        f"prefill {m.prefill_ms:.1f}, decode {m.decode_ms:.1f} ms; {m.tokens} tokens"
    )
