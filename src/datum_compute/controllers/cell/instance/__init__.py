"""Takes one Instance of a cell through quota to Ready, and reports it to the hub.

It owns, of a cell's Instance: the conditions ``QuotaGranted`` and ``Ready``, the gate
``Quota``, and the finalizers ``compute.datumapis.com/instance-controller`` and
``quota.compute.datumapis.com/claim-cleanup``. In the project plane it owns the Instance's
ResourceClaim, on the hub the Instance's copy; both carry this cell's name in the label
``source-cluster``, and what carries another name is never touched.

Steps, in calling order (:mod:`.reconcile`):

1. finalizers, where a hand-made Instance lacks them; while being deleted instead, give back
   what was taken elsewhere, then let go (:mod:`.removal`);
2. quota (:mod:`.quota`): find, make or release the claim; its answer as a condition; after
   a denial, ask again when that can help (:mod:`.retries`), in turn (:mod:`.turns`);
3. the safety requeue, known before anything can fail: a missed answer never strands;
4. Ready, from everything else; one status write if anything changed (:mod:`.status`);
5. the gate ``Quota`` in the same pass as the grant;
6. the hub copy (:mod:`.write_back`): last, because the hub may be away.

An Instance that is gone is reconciled too: whatever of it is left on the hub or in the
project is swept (:mod:`.sweep`).

Conditions it writes: ``QuotaGranted`` and ``Ready``; while the gate ``Quota`` is on and
quota is denied also ``Programmed`` and ``Available``, as no provider has a say yet.
"""

from datum_compute.controllers.cell.instance.controller import instance_controller

__all__ = ["instance_controller"]
