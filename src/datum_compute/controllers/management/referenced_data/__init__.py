"""Delivers the ConfigMaps and Secrets that deployments name to the hub, from where they follow the
deployments to their cells.

It owns, on the hub: the *companion* of each ConfigMap or Secret that a deployment of a project
names, in the namespace ``ns-<uid>``, with the label ``referenced-data`` and the annotation
``referenced-by``, which counts the deployments that use it. In the project it owns, on
deployments whose template names such objects and on no others, the finalizer
``compute.datumapis.com/referenced-data-controller`` and the annotations
``expected-referenced-data``, ``referenced-data-error`` and ``delivered-data``, which the Workload
controller turns into the hash on a template that rolls on changes. It writes no condition: the cell
reports ``ReferencedDataReady`` from these annotations.

Steps, in calling order (:mod:`.reconcile`):

1. the finalizer, before anything exists on the hub;
2. read the sources in the project, and write their companions (:mod:`.companions`);
3. the annotations, of which the federator copies the first two to the hub copy. Companions are
   written before: what rolls on a change finds the new content on the hub;
4. drop this deployment from companions that it no longer uses; the last one deletes the companion.

A companion stays while a deployment uses it: also when its source is deleted, so that Instances
which run keep what they have, and when an older template names it whose Instances still run. On
deletion it stays until the federator has removed the deployment from the hub.

Content is read from the server when it is due and never cached: the caches of sources and of
companions hold metadata alone. What was compared is remembered by resource version.
"""

from datum_compute.controllers.management.referenced_data.controller import (
    referenced_data_controller,
)

__all__ = ["referenced_data_controller"]
