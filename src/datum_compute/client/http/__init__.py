"""HTTP/1.1 to an API server, on asyncio and httptools.

:mod:`.transport` carries requests; :mod:`.request_encoder` writes one as bytes.
:mod:`.pool` keeps connections, :mod:`.connector` opens them (:mod:`.sockets`, :mod:`.proxy`,
:mod:`.tls`), and a :mod:`.connection` sends a request and reads its response with
:mod:`.response_parser`.

A pool takes any function that opens a connection, so another kind of socket needs only
another connector. A connection is never reused after a 101, so an upgraded stream would begin
in :mod:`.connection`.
"""
