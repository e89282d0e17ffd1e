"""What a visitor may name as a file: only what was uploaded.

Before a listener runs, Gradio copies each file and fetches each address that its inputs name. In a page that is
mounted, not launched, it does not ask whether a file was uploaded: whoever calls a listener directly could name any.
"""

from __future__ import annotations

import gradio as gr
from gradio import processing_utils


def only_uploads(page: gr.Blocks) -> gr.Blocks:
    """The page, its listeners safe from other files; and from now on Gradio fetches no address in this process."""
    page.has_launched = True  # as `launch` does: until then every path passes for one of the server's own
    processing_utils.async_ssrf_protected_download = _refuse  # it knows no limits; app.pictures.fetch does
    return page


async def _refuse(*_: object, **__: object) -> str:
    raise gr.Error("A file has to be uploaded; an address is given as text.", print_exception=False)
