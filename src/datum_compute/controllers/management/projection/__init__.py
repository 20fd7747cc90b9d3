"""Copies the Instances that cells have written to the hub into their projects.

It owns every projection in a project plane, with all its fields: name, labels, annotation
``compute.datumapis.com/instance-uid``, owner, spec, status.

Steps, in calling order (:mod:`.reconcile`):

1. find the hub copy; when a live read finds none, delete the projection;
2. find the project's WorkloadDeployment **by name**: a uid means nothing on another plane.
   Without it nothing is created: a projection without an owner would never be
   garbage-collected;
3. delete the projection of a predecessor (another instance-uid under the same name), so that
   the projection has the age of its Instance;
4. create or correct the projection, then its status (:mod:`.copy`); Events and metrics
   (:mod:`.signals`).

A hub Instance that cannot be projected is logged once and counted (:mod:`.quarantine`).

Conditions it writes: none of its own; it copies those of the cell.
"""

from datum_compute.controllers.management.projection.controller import projector

__all__ = ["projector"]
