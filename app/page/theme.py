"""How the page looks: Gradio's theme variables; the rest is `static/css/page.css`.

Fonts are the ones that Gradio serves itself, so that no other host is asked. Its semi-bold files
lack the Latin letters, hence bold.
"""

from __future__ import annotations

import gradio as gr
from gradio.themes.utils import fonts

SANS = (fonts.LocalFont("IBM Plex Sans", weights=(400, 700)), "system-ui", "sans-serif")
MONO = (fonts.LocalFont("IBM Plex Mono", weights=(400, 700)), "ui-monospace", "monospace")


def theme() -> gr.themes.Base:
    """Quiet neutral surfaces, one ink-coloured button, a blue accent; light and dark."""
    return gr.themes.Base(
        primary_hue=gr.themes.colors.blue,
        neutral_hue=gr.themes.colors.zinc,
        radius_size=gr.themes.sizes.radius_md,
        font=SANS,
        font_mono=MONO,
    ).set(
        body_background_fill="#fafafa",
        body_background_fill_dark="#0c0c0e",
        background_fill_primary="#ffffff",
        background_fill_primary_dark="#141417",
        background_fill_secondary="#f4f4f5",
        background_fill_secondary_dark="#1b1b1f",
        block_background_fill="#ffffff",
        block_background_fill_dark="#141417",
        block_border_width="1px",
        block_border_color="#e4e4e7",
        block_border_color_dark="#2a2a30",
        block_shadow="none",
        block_label_text_color="#52525b",
        block_label_text_color_dark="#a1a1aa",
        block_title_text_color="#3f3f46",
        block_title_text_color_dark="#d4d4d8",
        block_title_text_weight="600",
        block_info_text_color="#52525b",
        block_info_text_color_dark="#a1a1aa",
        input_background_fill="#ffffff",
        input_background_fill_dark="#0c0c0e",
        input_placeholder_color="#6b6b74",
        input_placeholder_color_dark="#8f8f99",
        input_border_width="1px",
        input_border_color="#d4d4d8",
        input_border_color_dark="#34343b",
        input_border_color_focus="#2563eb",
        input_border_color_focus_dark="#60a5fa",
        button_primary_background_fill="#18181b",
        button_primary_background_fill_dark="#f4f4f5",
        button_primary_background_fill_hover="#3f3f46",
        button_primary_background_fill_hover_dark="#d4d4d8",
        button_primary_border_color="#18181b",
        button_primary_border_color_dark="#f4f4f5",
        button_primary_border_color_hover="#3f3f46",
        button_primary_border_color_hover_dark="#d4d4d8",
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="#18181b",
        button_secondary_background_fill="#ffffff",
        button_secondary_background_fill_dark="#1b1b1f",
        button_secondary_background_fill_hover="#f4f4f5",
        button_secondary_background_fill_hover_dark="#26262b",
        button_secondary_border_color="#d4d4d8",
        button_secondary_border_color_dark="#34343b",
        button_border_width="1px",
        checkbox_background_color_selected="#2563eb",
        checkbox_background_color_selected_dark="#3b82f6",
        layout_gap="16px",
    )
