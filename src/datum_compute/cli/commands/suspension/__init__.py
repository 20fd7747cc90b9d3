"""``stop`` and ``start``: run nothing of a workload for a while."""
