"""What makes short commands as quick as kubectl. No module below ``cli`` imports this package.

A plain read is one or two requests; the rest of its time is starting Python (11 ms) and
importing. Measured on two cores with Python 3.11, against ``kubectl get`` (54 ms) in turn:
``--help`` takes 25 ms, ``instances`` 50 ms. These imports would each add, in ms:

=============  ====  =====================================================
aiohttp         186  the client's transport; it builds TLS contexts at import
asyncio          33
msgspec          12
dataclasses      10
http.client      10  it reads headers with the mail parser
pathlib           5
urllib.parse      1
=============  ====  =====================================================

So a plain read goes without them:

- :mod:`.start` raises the garbage collector's threshold and ends the process without tearing
  the interpreter down;
- :mod:`.reader` and :mod:`.http1` read over one blocking HTTP/1.1 connection;
- :mod:`.plain_yaml` reads a kubeconfig as tools write it;
- :mod:`.connect` opens readers for the connections that flags and kubeconfigs name.

The modules that plain reads share with other commands (``client.errors``, ``client.retry``,
``client.kubeconfig``, ``api.scheme``, ``cli.rollout.state``) use the standard library as any
module does; they stay free of the imports above because they do not need them.
``tests/unit/cli/quick/test_quick_start.py`` runs each read and checks what it has loaded.
"""
