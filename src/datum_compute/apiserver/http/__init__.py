"""The TLS listener and its certificates."""
