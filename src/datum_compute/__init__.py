"""A federated compute control plane.

The packages form layers, and each imports only what stands below it::

    cli > assembly > controllers | webhooks | platform > providers | fleets
        > runtime > client > decisions > api | env

``docs/develop/architecture.md`` tells what each is for; ``.importlinter`` holds the
same story as checked contracts.
"""

__version__ = "0.1.0"
