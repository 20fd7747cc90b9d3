"""Controllers of one cell: they own what runs there and go on when the centre is away.

``workload_deployment`` keeps the Instances of a deployment in number and revision, and its
networks ready. ``instance`` takes one Instance through quota to Ready, and reports it to
the hub.
"""
