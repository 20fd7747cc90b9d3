"""``datumctl-compute``: what people touch.

Data goes to stdout, talk to stderr. Each verb is one module below :mod:`.commands` with a
``configure(parser)`` and a ``run(context, args)``; it is imported only when it is asked
for, so that ``--help`` and completion start fast. Plain reads go through the synchronous
reader; commands that write or wait enter the event loop once.
"""
