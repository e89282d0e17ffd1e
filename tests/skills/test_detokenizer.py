"""Text by pieces is the text of all ids together, without half a character, at a cost that does not grow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from photon.skills.detokenizer import Detokenizer


class Splits:
    """A byte-level vocabulary in which an id is any run of bytes; counts what is decoded."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.parts = parts
        self.longest = 0

    def decode(self, ids: Sequence[int]) -> str:
        self.longest = max(self.longest, len(ids))
        return b"".join(self.parts[i] for i in ids).decode("utf-8", errors="replace")


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    at = sorted({0, len(data), *(p % (len(data) + 1) for p in places)})
    return [data[a:b] for a, b in pairwise(at)]


def pieces_of(parts: Sequence[bytes], shared: dict[int, str] | None = None) -> tuple[list[str], Splits]:
    splits = Splits(parts)
    detokenizer = Detokenizer(splits.decode, whole=shared)
    return [*(detokenizer.add(i) for i in range(len(parts))), detokenizer.flush()], splits


cuts = st.lists(st.integers(0, 200))
characters = st.text(st.sampled_from("aé€中🦊\u0301\u200d\ufffd ") | st.characters())


@given(characters, cuts)
def test_text_in_random_pieces_is_the_text(text: str, places: list[int]) -> None:
    pieces, splits = pieces_of(cut(text.encode("utf-8", errors="replace"), places))
    assert "".join(pieces) == text.encode("utf-8", errors="replace").decode()
    assert splits.longest <= 5


@given(st.text(st.sampled_from("aé€中🦊"), max_size=30), cuts)
def test_no_piece_has_half_a_character(text: str, places: list[int]) -> None:
    pieces, _ = pieces_of(cut(text.encode(), places))
    assert not any("\ufffd" in piece for piece in pieces)


@given(st.text(st.sampled_from("aé€中🦊"), max_size=30), cuts)
def test_a_complete_character_is_not_held_back(text: str, places: list[int]) -> None:
    parts = cut(text.encode(), places)
    pieces, _ = pieces_of(parts)
    for count in range(len(parts)):
        so_far = b"".join(parts[: count + 1]).decode("utf-8", errors="ignore")
        assert "".join(pieces[: count + 1]) == so_far


broken = st.binary(max_size=40) | st.lists(
    st.sampled_from(
        [b"\xf0", b"\x9f", b"\xa6", b"\x8a", b"\xe4", b"\xb8", b"\xff", b"a", b"\xc3", b"\xed\xa0", b"\xc0"]
    )
).map(b"".join)


@given(broken, cuts)
def test_bytes_that_are_no_text_are_replaced_as_if_decoded_at_once(data: bytes, places: list[int]) -> None:
    pieces, splits = pieces_of(cut(data, places))
    assert "".join(pieces) == data.decode("utf-8", errors="replace")
    assert splits.longest <= 5


@given(broken)
def test_byte_by_byte(data: bytes) -> None:
    pieces, splits = pieces_of([data[i : i + 1] for i in range(len(data))])
    assert "".join(pieces) == data.decode("utf-8", errors="replace")
    assert splits.longest <= 5


def test_dropped_ids_have_no_text_and_split_no_character() -> None:
    splits = Splits([b"\xe4\xb8", b"\xad", b"<stop>"])
    detokenizer = Detokenizer(splits.decode, dropped=[2])
    assert [detokenizer.add(i) for i in (0, 2, 1, 2)] == ["", "", "中", ""]


def test_what_is_remembered_is_whole_by_itself() -> None:
    parts, shared = [b"cat", b"\xe4\xb8", b"\xad!", b"\xff", b"a"], dict[int, str]()
    first, _ = pieces_of(parts, shared)
    assert shared == {0: "cat"}
    second, splits = pieces_of(parts, shared)
    assert first == second == ["cat", "", "中!", "", "�a", ""]
    assert splits.longest == 2
