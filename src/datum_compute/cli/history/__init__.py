"""A workload's revision history: what was changed, when, and by whom.

:mod:`.entries` defines entries, reads them from a ConfigMap and decides which are kept;
:mod:`.config_map` writes the ConfigMap, which the workload owns; :mod:`.recorder` changes a
workload together with its history.

A change is written in two steps: the spec with an annotation that describes the change, in
one request, and then the entry. A command that finds a spec without an entry adds one: from
the annotation if it describes that very spec, else as an external change. So a command that
ends between the two steps loses nothing, and neither do two at once.
"""
