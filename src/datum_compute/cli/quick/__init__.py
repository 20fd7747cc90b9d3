"""What makes short commands as quick as kubectl. No module below ``cli`` imports this package.

A plain read is one or two requests; the rest of its time is starting Python (12 ms) and
importing. In CPU time, measured on two cores with Python 3.11, ``kubectl get instances`` takes
56 ms, ``instances`` and ``rollout history`` 56, ``--help`` 32, and a command that goes through
the client 147. These imports would each add to a plain read, in ms:

===========  ==  ==============================================
the client   66  with asyncio, msgspec and httptools
asyncio      35
msgspec      22
http.client  15  it parses headers with the mail parser
dataclasses   9
pathlib       4
===========  ==  ==============================================

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
