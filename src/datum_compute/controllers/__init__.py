"""The controllers of the compute service; each subfolder holds one.

``management`` runs beside the management API and sees projects and the hub; ``cell`` runs
in one cell and sees its own plane, the hub and the quota API of its projects. The two
never import each other; what both need lies here: how planes are named (:mod:`.planes`),
when a copied spec is written again (:mod:`.copies`), which changes matter
(:mod:`.predicates`).

A controller knows clusters only through fleets and an API server only through the client
protocol: nothing here can tell an embedded plane from a real one.
"""
