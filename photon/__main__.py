"""`python -m photon COMMAND ...`: ask a model from a shell, list models, fetch one.

Exit codes: 0 answered, 2 the input or the model cannot be used (one sentence on stderr says why), 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys

from photon.commands import models, verbs
from photon.errors import PhotonError


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        options.run(options)
    except PhotonError as error:
        print(f"photon: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m photon", description="Ask a vision-language model about a picture."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    verbs.add_commands(commands)
    models.add_commands(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
