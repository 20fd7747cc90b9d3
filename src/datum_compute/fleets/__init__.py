"""Fleets: ways to find clusters.

A fleet here knows where the names of clusters come from and is given a function that turns a name
into a client: :mod:`.single` and :mod:`.static` have fixed names, :mod:`.projects` those of the
platform's projects, :mod:`.cell_projects` those of the projects with work in a cell. The last two
share :mod:`.engagement`. Controllers do not import this package: they are given a
:class:`~datum_compute.runtime.fleet.Fleet`.
"""
