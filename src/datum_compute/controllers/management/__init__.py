"""Controllers beside the management API: they see projects and the hub, never a cell.

``workload`` turns a Workload into one WorkloadDeployment per city, in the project.
``federation`` takes each of those to the hub and brings its status back.
``projection`` shows each Instance that a cell wrote to the hub in its project.
"""
