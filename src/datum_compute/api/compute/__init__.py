"""The compute API: one package per version, and the words all versions share."""
