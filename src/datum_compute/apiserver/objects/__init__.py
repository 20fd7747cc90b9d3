"""The life of a stored object: metadata, patches, deletion, garbage collection and expiry."""
