"""Spatial references: points and boxes on the picture that are part of a prompt (docs/model.md 6.1)."""

from __future__ import annotations

from typing import Any

from photon.core.request import Token
from photon.core.settings import MAX_OBJECTS, is_number
from photon.errors import InvalidRequestError
from photon.models.moondream.config import TokenizerConfig

_ALLOWED = (
    "allowed are lists of 2 (x, y) or 4 (x_min, y_min, x_max, y_max) numbers in 0..1, with each minimum at most its "
    "maximum"
)


def reference_tokens(refs: Any, ids: TokenizerConfig) -> tuple[Token, ...]:
    """A point is coord, coord; a box is coord, coord of its centre and size. Raises `InvalidRequestError`."""
    if refs is None:
        return ()
    if not isinstance(refs, (list, tuple)):
        raise InvalidRequestError(f"spatial_refs is {refs!r}; {_ALLOWED}.")
    if len(refs) > MAX_OBJECTS:
        raise InvalidRequestError(f"spatial_refs has {len(refs)} references; up to {MAX_OBJECTS} are allowed.")
    if refs and ids.coord_id < 0:
        raise InvalidRequestError("This model knows no coordinates; spatial_refs cannot be given.")
    return tuple(token for ref in refs for token in _one(ref, ids))


def _one(ref: Any, ids: TokenizerConfig) -> list[Token]:
    if not isinstance(ref, (list, tuple)) or len(ref) not in (2, 4) or not all(_in_range(v) for v in ref):
        raise InvalidRequestError(f"The spatial reference {ref!r} cannot be used; {_ALLOWED}.")
    if len(ref) == 2:
        return [Token(ids.coord_id, coord=float(v)) for v in ref]
    x0, y0, x1, y1 = (float(v) for v in ref)
    if x0 > x1 or y0 > y1:
        raise InvalidRequestError(f"The spatial reference {ref!r} cannot be used; {_ALLOWED}.")
    return [
        Token(ids.coord_id, coord=(x0 + x1) / 2),
        Token(ids.coord_id, coord=(y0 + y1) / 2),
        Token(ids.size_id, width=x1 - x0, height=y1 - y0),
    ]


def _in_range(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1
