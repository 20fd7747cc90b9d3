"""One more process, for requests that would hold up the others.

The server runs on one event loop: while it decodes or validates, every other client waits.
:mod:`.cost` estimates what a request takes; one that may take long is carried out in a worker
process. :mod:`.offload` sends it there with the stored objects it depends on, and applies the
result if none of them has changed meanwhile. :mod:`.process` holds the process: one request at a
time, in turn by user, each with a deadline. ``__main__`` is the process itself, which runs the
same verbs on :mod:`.snapshot`, a plane that has those objects alone.
"""
