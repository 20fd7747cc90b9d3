"""The controllers of the compute service, in two groups; each subfolder of a group is one.

``management`` runs beside the management API and reads and writes projects and the hub; ``cell``
runs in one cell and reads and writes its own plane, the hub and the quota API of its projects.
The groups never import each other; they share the names of planes (:mod:`.planes`) and the
measurement of replication lag (:mod:`.lag`).

A controller finds clusters only through fleets and calls an API server only through the client
protocol, so it runs the same on an embedded plane and on Kubernetes.
"""
