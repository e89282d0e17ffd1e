"""Model code: what the engine runs, and how its files are found and read."""
