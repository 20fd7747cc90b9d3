"""Shows in each project the Instances that cells have written to the hub.

It owns every Instance of a project plane, all of it: name, labels, annotation
``compute.datumapis.com/instance-uid``, owner, spec, status. It writes no condition of its
own; what it shows is what the cell said.

Steps, in calling order (:mod:`.reconcile`):

1. find the hub copy; when it is gone, *live*, remove the projection;
2. find the project's WorkloadDeployment **by name**: a uid means nothing on another plane.
   Without it nothing is created, as a projection without owner would never be collected;
3. remove the projection of a predecessor (another instance-uid under the same name), so
   that the age shown is the Instance's own;
4. create or correct the projection, then its status (:mod:`.copy`).

What can be shown nowhere until somebody acts is told once and counted (:mod:`.quarantine`).
"""

from datum_compute.controllers.management.projection.controller import projector

__all__ = ["projector"]
