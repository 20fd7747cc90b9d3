"""Orphans: objects that arrive in a member, or Works on the hub, after their cause was deleted.

A create whose caller got no answer may still arrive, seconds later. By then the Work may have
been deleted, have found nothing to delete in the member, and be gone. No reconcile would ever
concern that object again, so it is deleted when it is seen, but only after a live read proved
that the hub has neither the Work nor the template. A Cluster that was removed and joined again
therefore keeps what runs there: its templates are still on the hub, and their Works follow. A
Work that arrives on the hub after its binding was deleted is deleted likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from datum_compute.api import karmada
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.request import Request
from datum_compute.runtime.writes import patch
from datum_compute.standins.karmada import manifest as manifests

OBJECTS_BY_WORK = "propagation/work"
"""Index of members' objects by their Work."""


WORKS_BY_BINDING_NAME = "propagation/binding-name"
"""Index of Works by the name of their binding; a Work may belong to a deleted one of that name."""


def work_of(obj: Object) -> Iterable[str]:
    """The Work of a member's object, as an index key; none where Karmada does not manage it."""
    annotations = obj.metadata.annotations
    name = annotations.get(karmada.ANNOTATION_WORK_NAME)
    if name and manifests.is_managed(obj):
        yield f"{annotations.get(karmada.ANNOTATION_WORK_NAMESPACE, '')}/{name}"


async def remove_orphan_objects(
    hub_client: Client, member: Cluster, kinds: Sequence[Resource], request: Request
) -> None:
    """Delete the objects in a member that belong to a Work that no longer exists."""
    key = f"{request.namespace}/{request.name}"
    for resource in kinds:
        for orphan in member.cache(resource).by_index(OBJECTS_BY_WORK, key):
            if orphan.metadata.deleting or await _is_wanted(hub_client, resource, orphan, request):
                continue
            current = await find_live(member.client, resource, orphan.name, orphan.namespace)
            if current is not None and key in work_of(current):
                await patch.delete_if_present(member.client, resource, current)


async def remove_orphan_works(hub: Cluster, request: Request, binding: Object | None) -> None:
    """Delete Works that name this binding but belong to a deleted one of its name, or to none."""
    known = _binding_id(binding)
    found = hub.cache(karmada.WORKS).by_index(
        WORKS_BY_BINDING_NAME, f"{request.namespace}/{request.name}"
    )
    orphans = [one for one in found if not one.metadata.deleting and _binding_id(one) != known]
    if not orphans:
        return
    live = await find_live(hub.client, karmada.RESOURCE_BINDINGS, request.name, request.namespace)
    for orphan in orphans:
        if _binding_id(orphan) != _binding_id(live):
            await patch.delete_if_present(hub.client, karmada.WORKS, orphan)


def binding_of(work: Object) -> Iterable[str]:
    """The binding a Work names, as an index key; none for the Work of a namespace."""
    annotations = work.metadata.annotations
    if name := annotations.get(karmada.ANNOTATION_BINDING_NAME):
        yield f"{annotations.get(karmada.ANNOTATION_BINDING_NAMESPACE, '')}/{name}"


def _binding_id(obj: Object | None) -> str:
    return obj.metadata.labels.get(karmada.LABEL_BINDING_ID, "") if obj is not None else ""


async def _is_wanted(hub_client: Client, resource: Resource, obj: Object, request: Request) -> bool:
    """Whether the hub has the Work, or a template that will have it again."""
    if await find_live(hub_client, karmada.WORKS, request.name, request.namespace) is not None:
        return True
    return await find_live(hub_client, resource, obj.name, obj.namespace) is not None
