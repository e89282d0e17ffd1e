"""Masks from boxes, for models that find objects but cannot outline them."""
