"""The embedded API server: many Kubernetes-compatible planes on one SQLite file.

A request passes, in this order: the bytes limit and the plane's prefix (``handler``), the
bearer token and the right to act (``access``), the route (``routing``), the body
(``decoding``, ``patching``), the rules of metadata and of the kind (``objects``,
``lifecycle``, ``schema``), and the store (``storage``), which answers nothing that is not
on disk. Watches (``watching``) are fed from the same log in the same order.

``server.ApiServer.handle`` is the whole of it without sockets; ``serve`` puts it on a
port. Nothing here may import a stand-in, a controller or a client implementation: of
``client`` only the transport's records.
"""
