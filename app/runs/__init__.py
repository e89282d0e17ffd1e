"""Many questions at once: races, batches, modelled gains."""
