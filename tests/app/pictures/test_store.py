"""app.pictures.store: private, bounded, forgotten after a while."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from app.pictures.store import SHOWN_SIDE, PictureStore
from photon import PictureError, PictureLimits
from tests.samples import noise, png


class Clock:
    """A clock that tests set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(clock: Clock) -> Iterator[Callable[..., PictureStore]]:
    stores: list[PictureStore] = []

    def build(**options: float) -> PictureStore:
        stores.append(PictureStore(PictureLimits(), clock=clock, **options))  # type: ignore[arg-type]
        return stores[-1]

    yield build
    for store in stores:
        store.close()


def file(width: int = 30, height: int = 20, seed: int = 0) -> bytes:
    return png(noise(width, height, seed))


def files(store: PictureStore) -> list[Path]:
    return list(store.folder.iterdir())


def test_the_model_sees_the_exact_pixels_and_the_page_an_upright_copy(
    make: Callable[..., PictureStore],
) -> None:
    store = make()
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    stored = np.random.default_rng(1).integers(0, 255, (20, 30, 3), np.uint8)
    Image.fromarray(stored).save(buffer, "PNG", exif=exif)
    picture = store.add(buffer.getvalue(), "turned.png")
    assert (picture.width, picture.height) == (20, 30)
    np.testing.assert_array_equal(store.pixels(picture.token), np.rot90(stored, -1))
    shown = store.shown(picture.token)
    assert shown is not None
    with Image.open(shown) as copy:
        assert copy.size == (20, 30)
        assert 0x0112 not in copy.getexif()


def test_a_large_picture_is_shown_smaller_but_kept_whole(make: Callable[..., PictureStore]) -> None:
    store = make()
    buffer = io.BytesIO()
    Image.new("RGB", (SHOWN_SIDE * 2, 200)).save(buffer, "PNG")
    picture = store.add(buffer.getvalue(), "wide.png")
    assert store.pixels(picture.token).shape == (200, SHOWN_SIDE * 2, 3)
    with Image.open(store.shown(picture.token) or "") as copy:
        assert copy.size == (SHOWN_SIDE, 100)


def test_names_cannot_be_guessed_and_say_nothing(make: Callable[..., PictureStore]) -> None:
    store = make()
    first, second = store.add(file(), "same.png"), store.add(file(), "same.png")
    assert first.token != second.token
    assert len(first.token) >= 24
    assert "same" not in first.url
    assert store.shown("../../etc/passwd") is None
    assert store.shown("") is None


def test_pixels_are_read_again_when_they_were_dropped_from_memory(make: Callable[..., PictureStore]) -> None:
    store = make(max_pixels_mb=0.002)
    pictures = [store.add(file(seed=seed), "p.png") for seed in range(3)]
    assert len(store.decoded) == 1
    again = store.pixels(pictures[0].token)
    with Image.open(io.BytesIO(file(seed=0))) as image:
        np.testing.assert_array_equal(again, np.asarray(image))


def test_an_unused_picture_goes_after_a_while_and_its_files_too(
    make: Callable[..., PictureStore], clock: Clock
) -> None:
    store = make(max_age_s=100)
    old, used = store.add(file(), "old.png"), store.add(file(), "used.png")
    clock.now = 60
    store.pixels(used.token)
    clock.now = 120
    assert store.shown(used.token) is not None
    assert store.shown(old.token) is None
    assert len(files(store)) == 2
    with pytest.raises(PictureError, match="not used for a while"):
        store.pixels(old.token)


def test_the_folder_is_bounded_by_dropping_the_least_recently_used(make: Callable[..., PictureStore]) -> None:
    store = make(max_disk_mb=0.02)
    pictures = [store.add(file(60, 60, seed), "p.png") for seed in range(20)]
    assert sum(path.stat().st_size for path in files(store)) <= 20_000
    assert store.shown(pictures[-1].token) is not None
    assert store.shown(pictures[0].token) is None


def test_a_refused_picture_leaves_nothing(make: Callable[..., PictureStore]) -> None:
    store = make()
    with pytest.raises(PictureError):
        store.add(b"text", "text.png")
    assert files(store) == []


def test_a_picture_of_another_process_is_unknown(make: Callable[..., PictureStore]) -> None:
    with pytest.raises(PictureError, match="add it again"):
        make().pixels("stranger")


def test_closing_removes_everything(make: Callable[..., PictureStore]) -> None:
    store = make()
    store.add(file(), "p.png")
    store.close()
    assert not store.folder.exists()
