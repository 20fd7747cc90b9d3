"""The embedded API server: Kubernetes' API over any number of planes, kept in one file.

The life of a request, and the folder of each step:

1. ``http/`` reads it off a TLS connection. In process, a client hands it over directly.
2. :mod:`.handler` calls the steps that follow and maps every error to a ``Status``.
3. ``request/`` parses it: path, user, body, form of the response. It authorizes the user and,
   for some kinds, sends the write to admission.
4. ``verbs/`` carries it out: get, list, watch, create, update, patch, delete, and the
   subresources. ``builtin/`` answers what is about no object: discovery, OpenAPI, reviews.
   ``worker/`` does the same in a process of its own, for a request that would take long.
5. ``objects/`` applies the rules every object follows from creation to removal, and does what
   no request waits for: garbage collection and the expiry of Events.
6. ``kinds/`` is which kinds a plane serves; ``schema/`` prunes, defaults and validates.
7. ``storage/`` keeps the object; a response leaves only when what it reports is on disk.
8. ``printing/`` renders it: JSON, YAML, tables.

:mod:`.server` puts the parts together; :mod:`.errors` and :mod:`.codec` serve them all.
Everything but ``http/`` runs without sockets, on real or virtual time.
"""
