"""Views of textured 3D models, with exact alpha: the realistic half of the cut-outs.

The models are those of Debian's ``sweethome3d-furniture`` (CC0 and CC-BY; the author of each is kept). VTK renders
each from several sides, once over black and once over white: the difference is the alpha channel.
"""

from __future__ import annotations

import multiprocessing
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from photon.training.data.fetch import unzip
from photon.training.data.store import Cutout, keep_unfinished, write_cutouts

SIDE = 256
CHUNK = 40
AT_ONCE = 2
_CATALOG = "PluginFurnitureCatalog.properties"


@dataclass(frozen=True)
class FurnitureModel:
    """One entry of a furniture catalogue."""

    name: str
    path: Path
    author: str
    licence: str


def unpack_catalogues(package: Path, folder: Path) -> list[FurnitureModel]:
    """Unzips every ``*.sh3f`` catalogue below `package` into `folder` and lists its models."""
    models: list[FurnitureModel] = []
    for archive in sorted(package.rglob("*.sh3f")):
        target = folder / archive.stem
        if not target.exists():
            unpacking = folder / f"unfinished-{archive.stem}"
            unzip(archive, unpacking)
            unpacking.rename(target)
        models += _read_catalogue(target)
    return models


def _read_catalogue(folder: Path) -> list[FurnitureModel]:
    text = (folder / _CATALOG).read_text("latin-1")
    fields = dict(re.findall(r"^(\w+#?\d*)=(.*)$", text, re.M))
    licence = "CC0" if "Public" in fields["license"] else fields["license"].split("Copyright")[0].strip()
    return [
        FurnitureModel(
            fields[f"name#{key}"].strip().lower(),
            folder / fields[f"model#{key}"].strip().lstrip("/"),
            fields.get(f"creator#{key}", "unknown").strip(),
            licence,
        )
        for key in re.findall(r"^model#(\d+)=", text, re.M)
        if fields[f"model#{key}"].strip().endswith(".obj")
    ]


def render_views(model: FurnitureModel, views: int, rng: np.random.Generator) -> Iterator[Cutout]:
    """Cut-outs of `model` from `views` sides; sides that show almost nothing are left out."""
    import vtkmodules.vtkRenderingOpenGL2  # noqa: F401  registers the OpenGL back end
    from vtkmodules.vtkCommonCore import vtkLogger
    from vtkmodules.vtkRenderingCore import vtkRenderer, vtkRenderWindow

    vtkLogger.SetStderrVerbosity(vtkLogger.VERBOSITY_OFF)  # many models name materials that they do not bring
    window, renderer = vtkRenderWindow(), vtkRenderer()
    window.SetOffScreenRendering(1)
    window.SetMultiSamples(8)
    window.SetSize(SIDE, SIDE)
    window.AddRenderer(renderer)
    _load(model.path, window)
    _light(renderer, rng)
    for _ in range(views):
        _place_camera(renderer, azimuth=rng.uniform(-75, 75), elevation=rng.uniform(3, 35))
        black, white = _shot(window, renderer, 0.0), _shot(window, renderer, 1.0)
        alpha = 255 - np.clip((white.astype(np.int16) - black).mean(2), 0, 255)
        rgb = np.clip(black * (255 / np.maximum(alpha, 1))[..., None], 0, 255)
        pixels = np.dstack([_lift(rgb, alpha), alpha]).astype(np.uint8)
        if (alpha > 128).mean() > 0.03:
            yield Cutout(model.name, pixels, "sweethome3d-furniture", f"{model.licence}, {model.author}", real=True)
    window.Finalize()


def _load(path: Path, window: object) -> None:
    from vtkmodules.vtkIOImport import vtkOBJImporter

    clean = path.with_suffix(".clean.obj")
    lines = path.read_text("latin-1").splitlines()
    faces = (line for line in lines if not (line.startswith("f ") and len(line.split()) < 4))
    clean.write_text("\n".join(line for line in faces if not line.startswith("l ")), "latin-1")
    importer = vtkOBJImporter()
    importer.SetFileName(str(clean))
    materials = re.search(r"^mtllib\s+(.+)$", "\n".join(lines), re.M)
    if materials and (path.parent / materials[1].strip()).exists():
        importer.SetFileNameMTL(str(path.parent / materials[1].strip()))
        importer.SetTexturePath(str(path.parent))
    importer.SetRenderWindow(window)
    importer.Update()
    clean.unlink()


def _light(renderer: object, rng: np.random.Generator) -> None:
    from vtkmodules.vtkRenderingCore import vtkLight

    renderer.RemoveAllLights()  # type: ignore[attr-defined]
    renderer.AutomaticLightCreationOff()  # type: ignore[attr-defined]
    for strength, reach in ((0.8, 1.0), (0.45, 2.0)):
        light = vtkLight()
        light.SetLightTypeToCameraLight()
        light.SetPosition(rng.uniform(-reach, reach), rng.uniform(0.2, 1.2), 1.0)
        light.SetIntensity(strength)
        renderer.AddLight(light)  # type: ignore[attr-defined]


def _place_camera(renderer: object, azimuth: float, elevation: float) -> None:
    camera = renderer.GetActiveCamera()  # type: ignore[attr-defined]
    camera.SetPosition(0, 0, 1)
    camera.SetFocalPoint(0, 0, 0)
    camera.SetViewUp(0, 1, 0)
    camera.Azimuth(azimuth)
    camera.Elevation(elevation)
    renderer.ResetCamera()  # type: ignore[attr-defined]
    camera.Zoom(1.25)
    renderer.ResetCameraClippingRange()  # type: ignore[attr-defined]


def _shot(window: object, renderer: object, grey: float) -> np.ndarray:
    from vtkmodules.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkRenderingCore import vtkWindowToImageFilter

    renderer.SetBackground(grey, grey, grey)  # type: ignore[attr-defined]
    window.Render()  # type: ignore[attr-defined]
    grab = vtkWindowToImageFilter()
    grab.SetInput(window)
    grab.ReadFrontBufferOff()
    grab.Update()
    pixels = vtk_to_numpy(grab.GetOutput().GetPointData().GetScalars())
    shot: np.ndarray = pixels.reshape(SIDE, SIDE, 3)[::-1].copy()
    return shot


def _lift(rgb: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Brightens a dark view to a mean of 110, at most twofold."""
    seen = alpha > 128
    mean = rgb[seen].mean() if seen.any() else 255.0
    lifted: np.ndarray = np.clip(rgb * np.clip(110 / max(mean, 1.0), 1.0, 2.0), 0, 255)
    return lifted


def render_catalogues(package: Path, folder: Path, out: Path, views: int, most: int | None = None) -> None:
    """Views of the first `most` models below `package` into ``out/furniture-NN.bin``, a child process for each `CHUNK`.

    A model that brings VTK down costs the rest of its chunk, not the run. Chunks that are there are kept.
    """
    models = unpack_catalogues(package, folder)[:most]
    context = multiprocessing.get_context("spawn")
    waiting: deque[tuple[multiprocessing.context.SpawnProcess, Path]] = deque()
    starts = range(0, len(models), CHUNK)
    for start in tqdm(starts, desc="3D models", unit=f"x{CHUNK}"):
        path = out / f"furniture-{start // CHUNK:02d}.bin"
        if path.exists():
            continue
        child = context.Process(target=_render_chunk, args=(models[start : start + CHUNK], views, start, path))
        child.start()
        waiting.append((child, path))
        if len(waiting) == AT_ONCE:
            _finish(*waiting.popleft())
    while waiting:
        _finish(*waiting.popleft())


def _finish(child: multiprocessing.context.SpawnProcess, path: Path) -> None:
    child.join()
    if child.exitcode:
        print(f"{path.name} lacks its last models: rendering one of them ended with exit status {child.exitcode}")
        keep_unfinished(path)


def _render_chunk(models: list[FurnitureModel], views: int, seed: int, path: Path) -> None:
    def cutouts() -> Iterator[Cutout]:
        for index, model in enumerate(models):
            try:
                yield from render_views(model, views, np.random.default_rng(seed + index))
            except (OSError, ValueError, UnicodeError) as error:
                print(f"left out: {model.name} ({error})")

    write_cutouts(path, cutouts())
