"""The README's promises that a machine can check."""

from __future__ import annotations

import re

from tests.paths import ROOT

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


def front_matter() -> dict[str, str]:
    """The README's settings for a Space; short ones, all on one line each."""
    text = README.split("---\n")[1]
    return dict(line.split(": ", 1) for line in text.strip().splitlines())


def docker(instruction: str) -> list[str]:
    """The arguments of every such instruction, with continued lines joined."""
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    return [" ".join(line.split()[1:]) for line in lines if line.startswith(instruction + " ")]


def test_the_front_matter_is_what_a_space_accepts() -> None:
    given = front_matter()
    colours = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {given["colorFrom"], given["colorTo"]} <= colours
    assert given["sdk"] == "docker"
    assert len(given["short_description"]) <= 60
    assert given["suggested_hardware"] == "cpu-basic"


def test_the_image_runs_as_a_space_wants_it() -> None:
    environment = dict(one.split("=", 1) for one in " ".join(docker("ENV")).split())
    assert environment["PORT"] == front_matter()["app_port"] == docker("EXPOSE")[0]
    assert environment["HOST"] == "0.0.0.0"
    assert "--uid 1000" in docker("RUN")[0]
    assert docker("USER") == ["user"]
    assert docker("CMD") == ['["python", "app.py"]']


def test_the_image_installs_what_the_readme_installs() -> None:
    (install,) = (one for one in docker("RUN") if "pip" in one)
    assert install == "pip install --no-cache-dir --user -r requirements.txt"
    copied = [one.split()[-2:] for one in docker("COPY")]
    assert copied == [["requirements.txt", "."], [".", "."]]
    python = docker("FROM")[0].removeprefix("python:").removesuffix("-slim")
    assert f'requires-python = ">={python}"' in (ROOT / "pyproject.toml").read_text()
