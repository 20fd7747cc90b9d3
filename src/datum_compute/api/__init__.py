"""What users write and read: kinds, metadata, conditions, selectors, field errors.

Types and pure functions only: no I/O, no clock (``now`` is an argument), no randomness.
Everything above may import this package; it imports no other package of the product.
"""
