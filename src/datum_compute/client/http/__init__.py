"""HTTP/1.1 to an API server, on asyncio and httptools.

:mod:`.transport` carries requests; :mod:`.request_encoder` writes one as bytes.
:mod:`.pool` keeps connections, :mod:`.connector` opens them (:mod:`.sockets`, :mod:`.proxy`,
:mod:`.tls`), and a :mod:`.connection` sends a request and reads its response with
:mod:`.response_parser`.

A pool takes any function that opens a connection, so another kind of socket is another such
function. A connection whose response was 101 is never used again; whoever needs the raw bytes
after it would take them from :mod:`.connection`.
"""
