"""The words that all parts speak; no behaviour beyond their own numbers."""
