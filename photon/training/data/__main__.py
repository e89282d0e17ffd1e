"""Makes the training material: ``python -m photon.training.data --out DIR``.

Fetches the packages by name through their ordinary clients, cuts out things, reads backgrounds and writes the list
of names. Every step is skipped when its result is there, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import pickle
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from photon.training.data.backgrounds import photographs
from photon.training.data.clipart import clipart_cutouts
from photon.training.data.emoji import picture_cutouts, svg_cutouts
from photon.training.data.fetch import fetch_all
from photon.training.data.furniture import render_catalogues
from photon.training.data.lexicon import build_lexicon
from photon.training.data.library import open_library
from photon.training.data.store import read_entries, write_cutouts

SVG_SETS = ("emojione", "fluent-emoji", "fluent-emoji-flat", "fxemoji", "noto", "noto-v1", "twemoji")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for material")
    parser.add_argument("--views", type=int, default=5, help="views of each 3D model")
    arguments = parser.parse_args()
    out: Path = arguments.out
    raw = out / "raw"
    fetch_all(raw)
    if not (out / "drawings.bin").exists():
        write_cutouts(out / "drawings.bin", tqdm(_drawings(raw), desc="drawings", unit="cut-out"))
    render_catalogues(raw / "sweethome3d-furniture", raw / "sh3d", out, arguments.views)
    backgrounds = list(photographs(raw))
    (out / "backgrounds.pickle").write_bytes(pickle.dumps(backgrounds))
    library = open_library(out, "train")
    wordnet, timm = raw / "wordnet-base/usr/share/wordnet", raw / "timm/timm/data/_info"
    lexicon = build_lexicon(wordnet, timm, set(library.names))
    (out / "lexicon.json").write_text(json.dumps(asdict(lexicon)))
    _write_credits(out, raw)
    print(f"{len(library.names)} taught names, {len(lexicon.names)} names in all, {len(backgrounds)} photographs")


def _drawings(raw: Path):  # type: ignore[no-untyped-def]  # noqa: ANN202
    for name in SVG_SETS:
        yield from svg_cutouts(raw / f"@iconify-json/{name}" / "package")
    emoji_test = raw / "unicode-data/usr/share/unicode/emoji/emoji-test.txt"
    yield from picture_cutouts(raw / "@lobehub/fluent-emoji-3d" / "package", emoji_test)
    yield from clipart_cutouts(raw / "openclipart-png")


def _write_credits(out: Path, raw: Path) -> None:
    """One line a source and licence, with the number of cut-outs, and one a background."""
    counts: Counter[tuple[str, str]] = Counter()
    for file in sorted(out.glob("*.bin")):
        counts.update((entry.source, entry.licence) for entry in read_entries(file))
    lines = [f"{source}: {licence} ({count} cut-outs)" for (source, licence), count in sorted(counts.items())]
    lines += [f"{b.source}: photograph {b.name} (see the package's copyright file)" for b in photographs(raw)]
    (out / "CREDITS.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
