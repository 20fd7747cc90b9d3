"""The controllers of the compute service; each subfolder of a group holds one.

``management`` runs beside the management API and sees projects and the hub; ``cell`` runs
in one cell and sees its own plane, the hub and the quota API of its projects. The two groups
never import each other; they share how planes are named (:mod:`.planes`) and how late a copy
is (:mod:`.lag`).

A controller knows clusters only through fleets and an API server only through the client
protocol, so it runs the same on an embedded plane and on Kubernetes.
"""
