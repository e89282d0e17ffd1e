"""docs/: what code says of it can be found there, its links lead somewhere, and it speaks of modules that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import ROOT

DOCS = sorted((ROOT / "docs").glob("*.md"))
PROSE = [*DOCS, ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "photon").rglob("README.md"))]
REFERENCE = re.compile(r"docs/([\w-]+)\.md((?:[ ,]+(?:to |and )?(?:\d+(?:\.\d+)*|\"[^\"]+\"))*)")
"""docs/NAME.md with sections: numbers, or titles in quotation marks."""
PART = re.compile(r"\d+(?:\.\d+)*|\"[^\"]+\"")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)\s]*)?\)")
FILE = re.compile(r"`((?:photon|app|tests)/[\w/.-]+)`")


def references() -> Iterator[tuple[str, str, str]]:
    """(file, document, section) of everything that code refers to; an empty section means the whole document."""
    for top in ("photon", "app", "tests", "static/js"):
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix not in (".py", ".js", ".md") or file == Path(__file__):
                continue
            text = " ".join(line.strip().lstrip("#*/ ") for line in file.read_text("utf-8").splitlines())
            for name, parts in REFERENCE.findall(text):
                for part in PART.findall(parts) or [""]:
                    yield file.relative_to(ROOT).as_posix(), name, part


def headings(document: str) -> list[str]:
    return [
        line.lstrip("# ")
        for line in (ROOT / "docs" / f"{document}.md").read_text("utf-8").splitlines()
        if line[:1] == "#"
    ]


def stands(document: str, part: str) -> bool:
    """Whether a document has the section."""
    if not (ROOT / "docs" / f"{document}.md").is_file():
        return False
    titles = headings(document)
    if part.startswith('"'):
        return part.strip('"') in titles
    return not part or any(title.split(" ")[0].rstrip(".") == part for title in titles)


def test_what_code_refers_to_stands_in_the_documents() -> None:
    found = list(references())
    assert len(found) > 60
    assert [one for one in found if not stands(*one[1:])] == []


def test_a_reference_that_leads_nowhere_is_found() -> None:
    assert not stands("model", "7.9")
    assert not stands("engine", '"Pipelining"')
    assert not stands("design", "1")
    assert REFERENCE.search("(docs/model.md 3.4 to 3.6)")[2] == " 3.4 to 3.6"  # type: ignore[index]


def test_no_code_refers_to_documents_that_are_not_here() -> None:
    for top in ("photon", "app", "tests"):
        for file in (ROOT / top).rglob("*.py"):
            assert file == Path(__file__) or "(design:" not in file.read_text("utf-8"), file


@pytest.mark.parametrize("document", PROSE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_and_named_files_are_there(document: Path) -> None:
    text = document.read_text("utf-8")
    targets = [target for target, _ in LINK.findall(text) if "://" not in target]
    missing = [target for target in targets if not (document.parent / target).exists()]
    missing += [name for name in FILE.findall(text) if not (ROOT / name).exists()]
    assert missing == []


def test_every_document_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    assert [path.name for path in DOCS if path.name != "README.md" and f"({path.name})" not in index] == []


def test_a_tick_takes_at_most_eight_files_to_read() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    listed = re.findall(r"^\d+\. \[(photon/[\w/]+\.py)\]", index, re.MULTILINE)
    assert 0 < len(listed) <= 8
    assert "photon/scheduler/scheduler.py" in listed


def test_the_state_machine_can_be_played_with_as_it_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", index, re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out.strip() == "[(0, 0, 'committed'), (1, 1, 'launched')]"
