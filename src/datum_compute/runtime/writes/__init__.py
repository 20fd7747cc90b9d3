"""How controllers write: minimal patches, owners, copies of specs, and memory of own writes."""
