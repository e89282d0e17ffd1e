"""One process: FastAPI routes, the Gradio page, and the engine in the application's lifespan."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported

import gradio as gr
from fastapi import FastAPI
from gradio.utils import get_upload_folder

from app.api import add_api
from app.engines.holder import engine_config
from app.engines.metrics import Prometheus
from app.engines.models import Load, Look, Models
from app.page.handlers import Handlers
from app.page.only_uploads import only_uploads
from app.page.parts import ICON, STYLES
from app.page.theme import theme
from app.page.ui import TITLE, build_page
from app.pictures.fetch import Fetcher
from app.pictures.store import PictureStore
from app.questions.examples import load_examples
from app.settings import ON_ZERO_GPU, ServerSettings, SettingsError
from app.web.auth import KeyGate
from app.web.files import file_routes
from app.web.lingering import LingeringClose
from app.web.origins import Origins
from app.web.prefix import ForwardedPrefix
from app.web.previews import Previews
from app.web.serving import AddressTakenError, listen, serve
from photon import Photon, PictureLimits, download, memory_of, models_available

log = logging.getLogger(__name__)


DESCRIPTION = "Point, detect and segment in your own pictures, and see where each millisecond of the answer goes."
NO_MCP = "--mcp needs the package mcp, which is not installed here: pip install mcp==1.30.0"


def build_app(
    settings: ServerSettings, load: Load | None = None, look: Look | None = None, mcp: bool = False
) -> FastAPI:
    """The whole application. `load` makes a model's engine and `look` says what models are on this machine; by default
    those of `photon`. `mcp` offers the endpoints also as tools, at `gradio_api/mcp/`."""
    metrics = Prometheus()
    models = make_models(settings, metrics, load, look)
    metrics.watch(models.loaded)
    if settings.zero_gpu:
        models.main.note = ON_ZERO_GPU
        log.warning("%s", ON_ZERO_GPU)
    limits = PictureLimits(settings.max_image_mb, settings.max_megapixels)
    store = PictureStore(limits)
    examples = load_examples()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        models.start()
        following = asyncio.create_task(metrics.follow(models.loaded))
        try:
            yield
        finally:
            following.cancel()
            await models.close()
            store.close()

    app = FastAPI(title="Photon Demo", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.models = models
    if settings.api_key is not None:
        app.add_middleware(KeyGate, key=settings.api_key)
    app.add_middleware(Previews, title=TITLE, sentence=DESCRIPTION)
    app.add_middleware(Origins, allowed=settings.origins)
    app.add_middleware(ForwardedPrefix)
    app.add_middleware(LingeringClose)
    add_api(app, models, limits, metrics)
    app.include_router(file_routes(store, examples))
    handlers = Handlers(models.main, store, limits, examples, Path(get_upload_folder()), Fetcher(limits))
    mounted: FastAPI = gr.mount_gradio_app(
        app,
        only_uploads(build_page(handlers, models)),
        path="/",
        server_name=settings.host,
        server_port=settings.port,
        max_file_size=int(settings.max_image_mb * 1e6) + 1_000_000,
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        pwa=False,
        favicon_path=str(ICON),
        theme=theme(),
        css_paths=STYLES,
        head=f'<meta name="description" content="{DESCRIPTION}">',
        mcp_server=mcp,
    )
    return mounted


def make_models(settings: ServerSettings, metrics: Prometheus, load: Load | None, look: Look | None) -> Models:
    """The models that the settings offer; their engines are seen by `metrics`."""
    config = engine_config(settings)
    make = load or (lambda name, progress: Photon.load(name, config, progress))
    return Models(
        settings.model,
        settings.models,
        lambda name, progress: metrics.observed(make(name, progress)),
        look or partial(models_available, config),
        lambda: memory_of(config),
        download if settings.allow_download else None,
    )


def main(argv: list[str] | None = None) -> None:
    """Serve until stopped. Exits with one sentence when a setting is not allowed or an option cannot be met."""
    parser = argparse.ArgumentParser(prog="app.py", description=DESCRIPTION)
    parser.add_argument("--mcp", action="store_true", help="also serve the skills as tools at /gradio_api/mcp/")
    options = parser.parse_args(argv)
    if options.mcp and importlib.util.find_spec("mcp") is None:
        sys.exit(NO_MCP)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    try:
        settings = ServerSettings.from_env()
    except SettingsError as error:
        sys.exit(str(error))
    try:
        sock = listen(settings.host, settings.port)
    except AddressTakenError as error:
        sys.exit(str(error))
    app: Any = build_app(settings, mcp=options.mcp)
    print(f"Photon Demo: http://{settings.host}:{settings.port}", flush=True)
    serve(app, sock, app.state.models.close)
