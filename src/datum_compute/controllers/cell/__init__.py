"""Controllers of one cell: they own what runs there, also while hub and projects are unreachable.

``workload_deployment`` keeps the Instances of a deployment in number and revision, and its
networks ready. ``instance`` takes one Instance through quota to Ready, and writes it back to
the hub. Both use :mod:`.contact` (whether hub and project answer) and :mod:`.gates`.
"""
