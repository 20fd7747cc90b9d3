"""The command line ``datumctl-compute``.

Data goes to stdout, messages to stderr. Each verb is one module below :mod:`.commands` with a
``configure(parser)`` and a ``run(context)``; it is imported only when it runs, so that ``--help``
and completion start fast. Plain reads go through the synchronous
reader; commands that write or wait enter the event loop once.
"""
