"""Images on the engine: pulled from registries, or built from a directory."""
