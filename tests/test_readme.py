"""The README's promises that a machine can check."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_there_is_one_command_for_the_app_and_one_for_the_tests() -> None:
    commands = re.findall(r"<!-- (app|tests) -->\n```bash\n(.+)\n```", README)
    assert [name for name, _ in commands] == ["app", "tests"]
    assert "requirements.txt" in commands[0][1]
    assert commands[0][1].endswith("app.py")
    assert "requirements-dev.txt" in commands[1][1]
    assert "pytest" in commands[1][1]


def test_every_file_that_the_readme_links_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README) + re.findall(r'(?:src|href)="([^":]+)"', README)
    assert [link for link in links if not (ROOT / link).exists()] == []
