"""Pictures: read, fetched, kept."""
