"""What lies about without whoever asked for it, because it arrived when that had gone.

A create whose caller heard nothing more may still arrive, seconds later. By then the Work may
have been deleted, have found nothing to take from the member, and be gone. Nobody would ever
ask for that object again, so it is taken back when it is seen: never before the hub says,
live, that it has neither the Work nor the template any more. A Cluster that was removed and
came back therefore keeps what runs there: its templates are still on the hub, and their
Works on the way. A Work that arrives on the hub when its binding is gone goes likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from datum_compute.api import karmada
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.request import Request
from datum_compute.runtime.writes import patch
from datum_compute.standins.karmada import manifest as manifests

OBJECTS_BY_WORK = "propagation/work"
"""Index of members' objects by the Work that brought them."""


WORKS_BY_BINDING_NAME = "propagation/binding-name"
"""Index of Works by the binding they name, whichever of that name it was."""


def work_of(obj: Object) -> Iterable[str]:
    """The Work of a member's object, as an index key; nothing where Karmada has no part in it."""
    annotations = obj.metadata.annotations
    name = annotations.get(karmada.ANNOTATION_WORK_NAME)
    if name and manifests.is_managed(obj):
        yield f"{annotations.get(karmada.ANNOTATION_WORK_NAMESPACE, '')}/{name}"


async def remove_orphan_objects(
    hub_client: Client, member: Cluster, kinds: Sequence[Resource], request: Request
) -> None:
    """Take back what a Work that is gone has left in its member, if anything."""
    key = f"{request.namespace}/{request.name}"
    for resource in kinds:
        for stray in member.cache(resource).by_index(OBJECTS_BY_WORK, key):
            if stray.metadata.deleting or await _is_wanted(hub_client, resource, stray, request):
                continue
            current = await _find(member.client, resource, stray.name, stray.namespace)
            if current is not None and key in work_of(current):
                await patch.delete_if_present(member.client, resource, current)


async def remove_orphan_works(hub: Cluster, request: Request, binding: Object | None) -> None:
    """Take back Works that name this binding and belong to one before it, or to none."""
    known = _binding_id(binding)
    found = hub.cache(karmada.WORKS).by_index(
        WORKS_BY_BINDING_NAME, f"{request.namespace}/{request.name}"
    )
    strays = [one for one in found if not one.metadata.deleting and _binding_id(one) != known]
    if not strays:
        return
    live = await _find(hub.client, karmada.RESOURCE_BINDINGS, request.name, request.namespace)
    for stray in strays:
        if _binding_id(stray) != _binding_id(live):
            await patch.delete_if_present(hub.client, karmada.WORKS, stray)


def binding_of(work: Object) -> Iterable[str]:
    """The binding a Work names, as an index key; nothing for the Work of a namespace."""
    annotations = work.metadata.annotations
    if name := annotations.get(karmada.ANNOTATION_BINDING_NAME):
        yield f"{annotations.get(karmada.ANNOTATION_BINDING_NAMESPACE, '')}/{name}"


def _binding_id(obj: Object | None) -> str:
    return obj.metadata.labels.get(karmada.LABEL_BINDING_ID, "") if obj is not None else ""


async def _is_wanted(
    hub_client: Client, resource: Resource, stray: Object, request: Request
) -> bool:
    """Whether the hub has the Work, or a template that will have it again."""
    if await _find(hub_client, karmada.WORKS, request.name, request.namespace) is not None:
        return True
    return await _find(hub_client, resource, stray.name, stray.namespace) is not None


async def _find(client: Client, resource: Resource, name: str, namespace: str) -> Object | None:
    try:
        return await client.get(resource, name, namespace)
    except errors.NotFound:
        return None
