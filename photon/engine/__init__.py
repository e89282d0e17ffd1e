"""The public library: one object, one thread."""
