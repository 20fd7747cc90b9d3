"""Milo's resource manager API, one package per version."""
