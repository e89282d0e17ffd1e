"""Who made a file of a Debian package, and its licence: read from the package's machine-readable copyright file."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path


def credit_of(package: Path, file: Path) -> str:
    """The text "author; licence" for `file`, which lies in the folder that Debian's `package` was unpacked into.

    The last paragraph whose "Files" match counts. Patterns speak of the source tree, so they are compared with the
    end of the installed path and with the file's name.
    """
    (listing,) = package.glob("usr/share/doc/*/copyright")
    found = "author and licence not stated"
    for fields in _paragraphs(listing.read_text("utf-8", errors="replace")):
        if any(_matches(pattern, file.as_posix()) for pattern in fields.get("Files", "").split()):
            author = re.sub(r"^Copyright( \([cC]\))? ?", "", fields.get("Copyright", "author not stated"))
            found = f"{author}; {fields.get('License', 'licence not stated')}"
    return found


def _matches(pattern: str, path: str) -> bool:
    return fnmatch.fnmatch(path, f"*{pattern}") or Path(pattern).name == Path(path).name


def _paragraphs(text: str) -> list[dict[str, str]]:
    """Each paragraph's fields; a field's further lines are joined to its first by commas."""
    blocks = re.split(r"\n\s*\n", text)
    field = re.compile(r"^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t].*)*)", re.M)
    return [{name: re.sub(r"\n\s+", ", ", value).strip() for name, value in field.findall(block)} for block in blocks]
