"""Credentials: tokens, token files and exec plugins."""
