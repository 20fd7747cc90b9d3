"""Milo's service catalogue API, one package per version."""
