"""Controllers beside the management API: they see projects and the hub, never a cell.

``workload`` turns a Workload into one WorkloadDeployment per city, in the project.
``federation`` copies each of those to the hub and mirrors its status back.
``projection`` copies each Instance that a cell wrote to the hub into its project.
"""
