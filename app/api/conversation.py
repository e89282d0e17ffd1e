"""OpenAI's messages, reduced to what these models take: one text and one picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.api.body import checked_text
from app.api.problems import ApiError

_ROLES = ("system", "developer", "user", "assistant", "tool")


@dataclass(frozen=True)
class ChatQuestion:
    """The last user message's text and the last picture up to it, a data URL; which messages were not looked at."""

    text: str
    image_url: str | None = None
    unheard: tuple[str, ...] = ()


def chat_question(messages: Any) -> ChatQuestion:
    """Raises ApiError 400 for messages that are not in OpenAI's form or hold no question."""
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "The field 'messages' is missing or empty; a list of messages is expected.")
    text, image_url = None, None
    heard: dict[str, int] = {}
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            raise ApiError(400, f"Message {index} has no role that is known; allowed are {', '.join(_ROLES)}.")
        if role != "user":
            continue
        parts = list(_parts(message.get("content"), index))
        text = "\n".join(value for kind, value in parts if kind == "text").strip()
        pictures = [value for kind, value in parts if kind == "image_url"]
        if len(pictures) > 1:
            raise ApiError(400, f"Message {index} has {len(pictures)} pictures; a question is about one.")
        heard["text"] = index
        if pictures:
            image_url, heard["picture"] = pictures[0], index
    if text is None:
        raise ApiError(400, "No message has the role 'user'; the last such message is the question.")
    if not text:
        raise ApiError(400, "The last user message has no text; ask something about the picture.")
    unheard = (f"messages[{index}]" for index in range(len(messages)) if index not in heard.values())
    return ChatQuestion(text, image_url, tuple(unheard))


def _parts(content: Any, index: int) -> Iterator[tuple[str, str]]:
    """("text", text) and ("image_url", URL) of a message's content."""
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else _list(content, index):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            yield "text", checked_text(part.get("text"), f"The text in message {index}")
        elif kind == "image_url":
            image = part.get("image_url")
            url = image.get("url") if isinstance(image, dict) else image
            if not isinstance(url, str):
                raise ApiError(400, f"The image in message {index} has no URL; a data URL is expected.")
            yield "image_url", url
        else:
            raise ApiError(400, f"A part of message {index} has no type that is known; allowed are text and image_url.")


def _list(content: Any, index: int) -> list[Any]:
    if not isinstance(content, list):
        raise ApiError(400, f"The content of message {index} is neither text nor a list of parts.")
    return content
