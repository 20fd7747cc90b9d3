"""Reading a subresource: an object of its own kind under another's name, such as ``scale``.

Writing one is ``update`` or ``patch`` with ``subresource``.
"""

from __future__ import annotations

import msgspec

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.call import ClientCall
from datum_compute.client.protocol import Client


async def get_subresource(
    client: Client, resource: Resource, name: str, namespace: str = "", *, subresource: str
) -> Object:
    """For ``status`` the whole object comes back, for ``scale`` a Scale."""
    target = ClientCall("get", resource, namespace, name, subresource, client.cluster)
    target.check(named=True)
    body = await client.raw(target.path)
    try:
        return Object.from_wire(body)
    except (msgspec.DecodeError, RecursionError) as error:
        detail = f"not an API answer ({error}): {body[:200]!r}"
        raise errors.Malformed(detail, call=target) from error
