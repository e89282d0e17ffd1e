"""Every error that this library raises on purpose; each carries one plain sentence for the caller."""

from __future__ import annotations


class PhotonError(Exception):
    """Base of all errors raised by this library."""


class InvalidRequestError(PhotonError, ValueError):
    """The caller's value is refused; the sentence names the value and what is allowed."""


class UnsupportedSkillError(InvalidRequestError):
    """The loaded model does not have this skill."""


class UnknownWordError(InvalidRequestError):
    """The loaded model has a closed vocabulary and does not know this word."""

    def __init__(self, word: str, nearest: tuple[str, ...]) -> None:
        self.word = word
        self.nearest = nearest
        hint = f" The nearest words that it knows: {', '.join(nearest)}." if nearest else ""
        super().__init__(f"This model does not know the word {word!r}.{hint}")


class PictureError(InvalidRequestError):
    """A picture is refused; the sentence is fit to be shown to the person who sent it."""


class NotAPictureError(PictureError):
    """The bytes are not a picture in a format that is read here."""


class DamagedPictureError(PictureError):
    """The file starts as a picture but is cut short or broken."""


class PictureTooLargeError(PictureError):
    """A limit on bytes, pixels or side ratio is passed."""


class ModelLoadError(PhotonError):
    """Model files are missing, damaged or do not fit the configuration."""


class QueueFullError(PhotonError):
    """Too many requests are waiting; try again later."""


class EngineStoppedError(PhotonError):
    """The engine has been closed or has failed; the sentence gives the cause."""


class RequestCancelledError(PhotonError):
    """The request was cancelled before it finished."""


class NonFiniteError(PhotonError):
    """The model's numbers overflowed while it answered this request."""


class DeviceError(PhotonError):
    """Work launched on the device failed."""
