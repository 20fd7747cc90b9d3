"""Which kinds a member serves, as far as anything of them is propagated.

The real system lists everything a member serves. Here only the groups that propagated kinds
belong to are asked for, with each probe, so that a kind installed in a member later is
noticed at the next one. A group the member says it has not is not served; a group nobody
gave an answer about stays as it was known, and the list then counts as incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client


@dataclass(frozen=True, slots=True)
class Enablements:
    groups: list[dict[str, Any]]
    """As a Cluster's status has them, by group and version."""
    complete: bool


async def read_enablements(
    member_client: Client, kinds: Iterable[Resource], known: Iterable[dict[str, Any]]
) -> Enablements:
    """What the member serves of the groups of these kinds."""
    before = {one["groupVersion"]: one for one in known}
    groups, complete = [], True
    for group_version in sorted({kind.api_version for kind in kinds}):
        root = "apis" if "/" in group_version else "api"
        try:
            answer = await member_client.raw(f"/{root}/{group_version}")
            served = msgspec.json.decode(answer, type=_Served).resources
        except (errors.NotFound, errors.NotServed):
            continue
        except (errors.ClientError, msgspec.DecodeError):
            complete = False
            groups += [before[group_version]] if group_version in before else []
            continue
        resources = [
            {"name": one.name, "kind": one.kind}
            for one in sorted(served, key=lambda one: one.name)
            if "/" not in one.name
        ]
        groups.append({"groupVersion": group_version, "resources": resources})
    return Enablements(groups, complete)


class _Resource(msgspec.Struct):
    name: str
    kind: str


class _Served(msgspec.Struct):
    resources: list[_Resource]
