"""The compute API: one package per version, and the constants that all versions share."""
