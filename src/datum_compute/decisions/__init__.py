"""The rules, as pure functions.

Each function takes objects (and ``now`` where time matters) and returns frozen records or
JSON values for a controller to write. It may import :mod:`datum_compute.api` and the
standard library. No clock, no randomness, no waiting, no I/O: what is decided here can be
proved by tables and properties alone.
"""
