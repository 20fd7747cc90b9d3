"""Milo's quota API, one package per version."""
