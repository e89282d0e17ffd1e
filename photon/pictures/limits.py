"""How large a picture may be."""

from __future__ import annotations

from dataclasses import dataclass

from photon.errors import NotAPictureError, PictureTooLargeError


@dataclass(frozen=True)
class PictureLimits:
    """What is accepted: file size in MB (10^6 bytes), megapixels, long side over short side."""

    max_mb: float = 20.0
    max_megapixels: float = 50.0
    max_ratio: float = 50.0

    def check_bytes(self, count: int) -> None:
        """Raises PictureError for an empty or too large file of `count` bytes."""
        if count == 0:
            raise NotAPictureError("The file is empty.")
        if count > self.max_mb * 1e6:
            raise PictureTooLargeError(f"The file has {count / 1e6:.1f} MB; at most {self.max_mb:g} MB are accepted.")

    def check_size(self, width: int, height: int) -> None:
        """Raises PictureTooLargeError for too many pixels or too long a strip."""
        if width * height > self.max_megapixels * 1e6:
            raise PictureTooLargeError(
                f"The picture has {width} × {height} = {width * height / 1e6:.1f} megapixels; "
                f"at most {self.max_megapixels:g} are accepted."
            )
        if max(width, height) > self.max_ratio * min(width, height):
            raise PictureTooLargeError(
                f"The picture is {width} × {height}; its long side may be at most "
                f"{self.max_ratio:g} times its short side."
            )
