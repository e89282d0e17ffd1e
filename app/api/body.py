"""The body of a request: read no further than the limit, parsed as one JSON object, its fields checked."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from fastapi import Request
from starlette.requests import ClientDisconnect

from app.api.problems import ApiError, ClientGoneError
from photon import PictureLimits

MAX_TEXT = 32_768  # characters: far more than any context holds, far less than would keep the tokenizer busy
_BESIDE_THE_PICTURE = 1_000_000  # bytes for the other fields


def max_body(limits: PictureLimits) -> int:
    """The largest body in bytes: a picture of the allowed size in base64, and some text beside it."""
    return int(limits.max_mb * 1e6 * 4 / 3) + _BESIDE_THE_PICTURE


async def read_body(request: Request, limit: int) -> bytes:
    """The body, at most `limit` bytes. Raises ApiError 413 as soon as its header or the bytes so far say more."""
    packed = request.headers.get("content-encoding", "identity")
    if packed != "identity":
        raise ApiError(415, f"The body is compressed (Content-Encoding: {packed[:40]}); send it as it is.")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(int(declared), limit)
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise _too_large(size, limit)
            parts.append(part)
    except ClientDisconnect:
        raise ClientGoneError from None
    return b"".join(parts)


def parse_body(data: bytes) -> dict[str, Any]:
    """The JSON object of a body. Raises ApiError 400 with what is wrong."""
    if not data.strip():
        raise ApiError(400, "The body is empty; a JSON object is expected.")
    try:
        value = json.loads(data, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ApiError(400, f"The body is not valid JSON: {error.msg} ({where}).") from None
    except UnicodeDecodeError as error:
        packed = data.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd"))
        what = "it is compressed; send it as it is" if packed else f"byte {error.start} is not UTF-8"
        raise ApiError(400, f"The body is not valid JSON: {what}.") from None
    except RecursionError:
        raise ApiError(400, "The body is not valid JSON for this server: it is nested too deeply.") from None
    except ValueError:
        raise ApiError(400, "The body is not valid JSON for this server: a number has too many digits.") from None
    if not isinstance(value, dict):
        raise ApiError(400, f"The body is a JSON {_kind(value)}; a JSON object is expected.")
    return value


def text_of(body: Mapping[str, Any], name: str) -> str:
    """A required text. Raises ApiError 400."""
    value = body.get(name)
    if value is None:
        raise ApiError(400, f"The field {name!r} is missing.")
    return checked_text(value, f"The field {name!r}")


def checked_text(value: Any, what: str) -> str:
    """`value`, if it is text that can be used; `what` begins the sentence that refuses it."""
    if not isinstance(value, str):
        raise ApiError(400, f"{what} is a JSON {_kind(value)}; a string is expected.")
    if len(value) > MAX_TEXT:
        raise ApiError(400, f"{what} has {len(value)} characters; at most {MAX_TEXT} are allowed.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ApiError(400, f"{what} holds half of a character (an unpaired surrogate).") from None
    return value


def ignored(body: Mapping[str, Any], known: Collection[str], *more: str) -> dict[str, list[str]]:
    """{"ignored": [...]}, what a client sent to no effect, for the answer to say; empty if all was heeded."""
    names = [*(name[:100] for name, value in body.items() if name not in known and value is not None), *more]
    return {"ignored": names} if names else {}


def model_of(body: Mapping[str, Any]) -> str | None:
    """The model that a request names; None if it leaves the choice to the server. Raises ApiError 400."""
    return None if body.get("model") is None else text_of(body, "model")


def flag_of(body: Mapping[str, Any], name: str) -> bool:
    """A true or false that is false when absent. Raises ApiError 400."""
    value = body.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ApiError(400, f"The field {name!r} is a JSON {_kind(value)}; true or false is expected.")
    return value


def _too_large(size: int, limit: int) -> ApiError:
    return ApiError(413, f"The body has {size / 1e6:.1f} MB or more; at most {limit / 1e6:.1f} MB are accepted.")


def _no_constant(name: str) -> NoReturn:
    raise ApiError(400, f"The body is not valid JSON: {name} is not a JSON number.")


def _kind(value: Any) -> str:
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")
