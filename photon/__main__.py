"""`python -m photon point|detect|segment IMAGE OBJECT`: ask a model from a shell.

Exit codes: 0 answered, 2 the input or the model cannot be used (one sentence on stderr says why).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from PIL import Image, ImageOps

from photon import EngineConfig, Photon, PhotonError, Result
from photon.draw import draw
from photon.errors import InvalidRequestError

SKILLS = ("point", "detect", "segment")


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        image = read_image(options.image)
        with Photon.load(options.model, EngineConfig(device=options.device, threads=options.threads)) as model:
            verb = getattr(model, options.skill)
            settings = {"max_objects": options.max_objects} if options.max_objects is not None else None
            result = verb(image, options.object, settings=settings, pipelined=not options.blocking)
        if options.draw:
            save(draw(image, result), options.draw)
    except PhotonError as error:
        print(f"photon: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result) if options.json else describe(options.skill, options.object, result))
    return 0


def read_image(path: Path) -> Image.Image:
    """An upright RGB picture. Raises `InvalidRequestError` if the file is not one."""
    try:
        with Image.open(path) as file:
            return ImageOps.exif_transpose(file).convert("RGB")
    except FileNotFoundError:
        raise InvalidRequestError(f"There is no file {str(path)!r}.") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        raise InvalidRequestError(f"The file {str(path)!r} is not an image that can be read.") from None


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
    m = result.metrics
    lines.append(
        f"{m.mode}: {m.total_ms:.1f} ms in all; preprocessing {m.preprocess_ms:.1f}, queue {m.queue_ms:.1f}, "
        f"prefill {m.prefill_ms:.1f}, decode {m.decode_ms:.1f} ms; {m.tokens} tokens"
    )
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m photon", description="Ask a vision-language model about a picture."
    )
    parser.add_argument("skill", choices=SKILLS, metavar="|".join(SKILLS))
    parser.add_argument("image", type=Path, metavar="IMAGE")
    parser.add_argument("object", metavar="OBJECT", help="what to look for, for example 'cat'")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--blocking", action="store_true", help="decode without the pipeline")
    parser.add_argument("--draw", type=Path, metavar="OUT.png", help="write the picture with the answer drawn over it")
    parser.add_argument("--max-objects", type=int, metavar="N")
    parser.add_argument(
        "--model", default="photon-tiny", metavar="NAME", help="a name, a folder or a .safetensors file"
    )
    parser.add_argument("--device", default="auto", help="auto, cuda or cpu")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads of the forward pass")
    return parser


if __name__ == "__main__":
    sys.exit(main())
