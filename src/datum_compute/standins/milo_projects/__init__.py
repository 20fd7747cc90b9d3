"""The stand-in for Milo's projects: a Project gets a plane with its namespaces and becomes ready.

The API server serves a project's plane while the Project exists. :mod:`.controller` puts its
finalizer on the Project, ensures the plane's namespaces, and reports Ready, upon which fleets
engage it. A Project that is being deleted is emptied first (:mod:`.purge`).
"""

from __future__ import annotations

from datum_compute.standins.milo_projects.controller import project_controllers

__all__ = ["project_controllers"]
