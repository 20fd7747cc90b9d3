"""Rules of objects, whatever their kind: metadata, writes, patches, garbage collection, planes.

What a single built-in kind demands beyond that is in :mod:`..kinds.builtin_rules`.
"""
