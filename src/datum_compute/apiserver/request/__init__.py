"""Parses a request (path, user, body, options) and decides whether it may be carried out.

Everything here is about one request and stores nothing.
"""
