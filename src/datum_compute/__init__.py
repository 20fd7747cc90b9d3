"""A federated compute control plane.

The packages form layers, and each imports only what stands below it::

    cli > assembly > controllers | webhooks | standins | apiserver
        > providers | fleets > runtime > client > decisions > api | env

``docs/develop/architecture.md`` says what each is for; ``.importlinter`` holds the same
as checked contracts.
"""

__version__ = "0.1.0"
