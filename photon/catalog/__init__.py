"""Which models there are, here or to be fetched."""
