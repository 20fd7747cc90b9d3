"""The controller runtime: many clusters, level-triggered, no kind known by name.

What belongs here: how clusters come and go (``fleet``), what is known about them
(``cluster``, ``reflector``, ``cache``, ``index``), how a change becomes a request
(``watch_source``, ``mapping``, ``intake``), how requests become runs (``queue``,
``turns``, ``backoff``, ``controller``, ``own_writes``), and who owns all those tasks
(``manager``, ``tasks``). What does not: any kind, label or plane of the product, and any way to
find clusters; those live above, in ``controllers`` and ``fleets``.
"""
