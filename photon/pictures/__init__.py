"""From the bytes of a file to an upright 8-bit picture: one reader for page, HTTP, Python and command line."""
