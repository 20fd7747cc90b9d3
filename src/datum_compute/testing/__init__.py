"""Test kit, for this repository and for authors of providers; the product never imports it.

:mod:`.loop` and :mod:`.environment` replace time, order and chance, :mod:`.server` is a real
API server in the same process, and :mod:`.expectations` waits for a state instead of a time.
For several processes, :mod:`.network` carries their calls with the faults of
:mod:`.network_faults`, and :mod:`.processes` crashes and restarts them. :mod:`.store_template`
boots a platform once for all seeds, :mod:`.cache_history` gives a reconcile a stale cache,
:mod:`.calls` records calls, and :mod:`.trace` compares two runs of one seed.
"""
