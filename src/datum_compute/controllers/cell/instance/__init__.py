"""Claims quota for an Instance of a cell, decides its Ready, and writes it back to the hub.

It owns, of a cell's Instance: the conditions ``QuotaGranted`` and ``Ready``, the gate
``Quota``, and the finalizers ``compute.datumapis.com/instance-controller`` and
``quota.compute.datumapis.com/claim-cleanup``. In the project plane it owns the Instance's
ResourceClaim, on the hub the Instance's copy; both carry this cell's name in the label
``source-cluster``, and objects with another name are never touched.

Steps, in calling order (:mod:`.reconcile`):

1. finalizers, where an Instance created by hand lacks them; while being deleted instead,
   delete copy and claim, then release the finalizers (:mod:`.removal`);
2. quota (:mod:`.quota`): find, create or release the claim, and decide ``QuotaGranted`` from
   it; after a denial, claim again once that can succeed (:mod:`.retries`), one Instance of a
   project after another (:mod:`.denials`);
3. the safety requeue, computed before anything can fail, so that no Instance waits for an event
   that was missed;
4. ``Ready``, from all other conditions (:mod:`.status`); one status write if anything changed,
   then Events and metrics (:mod:`.signals`);
5. the gate ``Quota``, in the same reconcile as the grant;
6. the hub copy (:mod:`.write_back`): last, because the hub may be unreachable.

A request for an Instance that no longer exists deletes what is left of it on the hub and in
the project (:mod:`.sweep`).

Conditions it writes: ``QuotaGranted`` and ``Ready``; while the gate ``Quota`` is set and quota
is denied also ``Programmed`` and ``Available``, as no provider runs the Instance yet.
"""

from datum_compute.controllers.cell.instance.controller import instance_controller

__all__ = ["instance_controller"]
