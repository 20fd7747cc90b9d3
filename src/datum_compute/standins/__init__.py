"""Stand-ins: local implementations of the systems around compute.

Each package replaces one real system behind that system's own API, inconvenient behaviour included,
and can be swapped for the real one. They do not import each other.

Adding one takes three hand-written files beside its tests:

1. its package here, whose ``__init__`` exports a function that returns its controllers;
2. a record in ``assembly/local/standins.py``: process, user, and which planes it sees;
3. ``docs/develop/stand-in-facts.md``, with a test for each fact.

``make record-rights`` then records the calls it makes, from which ``make generate`` derives its
role; the import contract covers every package here.
"""
