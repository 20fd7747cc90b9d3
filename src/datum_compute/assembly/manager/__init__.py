"""``compute-manager``: the controllers as a process beside real API servers.

:mod:`.main` is the program. :mod:`.settings` reads flags and :mod:`.config` the file;
:mod:`.plane_clients` connects to the planes, :mod:`.plane_check` checks what each of them is,
:mod:`.groups` chooses the controllers that run on them, :mod:`.admission` builds the webhooks.
:mod:`.endpoints` and :mod:`.http_server` serve probes, metrics and webhooks.
"""
