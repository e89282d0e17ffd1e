"""The web application: a Gradio page and HTTP routes over one in-process `photon` engine."""
