"""Images from a directory, built by the engine."""
