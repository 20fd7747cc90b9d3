"""Requests and responses on the wire: TLS, HTTP/1.1, and the limits a client must keep.

Knows neither kinds nor planes: it hands ``HttpRequest`` records to a handler.
"""
