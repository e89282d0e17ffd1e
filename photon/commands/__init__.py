"""The commands of `python -m photon`: each module adds its own to the parser and runs them."""
