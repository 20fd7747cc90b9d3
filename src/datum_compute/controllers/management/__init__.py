"""Controllers beside the management API: they read and write projects and the hub, never a cell.

``workload`` creates one WorkloadDeployment per placement and city of a Workload, in the project.
``federation`` copies each of those to the hub and copies its status back.
``projection`` copies each Instance that a cell wrote to the hub into its project.
"""
