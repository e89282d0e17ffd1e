"""Every fault of `python -m tests.mutations` can still be put in: its text stands once where it says that it does."""

from __future__ import annotations

from collections import Counter

from tests.mutations.faults import MUTATIONS
from tests.paths import ROOT


def test_each_change_finds_its_text_once() -> None:
    for mutation in MUTATIONS:
        for change in mutation.changes:
            text = (ROOT / "photon" / change.file).read_text()
            assert text.count(change.old) == 1, f"{mutation.what}: {change.file} holds {change.old!r} not once"


def test_each_names_tests_that_are_there_and_no_two_are_called_the_same() -> None:
    for mutation in MUTATIONS:
        assert mutation.tests
        for test in mutation.tests:
            assert (ROOT / test.partition("::")[0]).is_file(), f"{mutation.what}: there is no {test}"
    assert [what for what, count in Counter(m.what for m in MUTATIONS).items() if count > 1] == []
