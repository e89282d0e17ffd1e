"""The Moondream family: vision tower, text decoder and region heads (docs/model.md)."""
