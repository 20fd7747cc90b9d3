"""What every plane of a manager is asked by ``--check``: does it answer, to whom and in which
version; is it the plane it should be; what may the manager do there; what is defined, and with
all fields. The rest is in :mod:`.installation_check`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.crds import all_crds
from datum_compute.api.kinds import KINDS
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.scheme import Resource
from datum_compute.apiserver.request.access import PolicyRule
from datum_compute.assembly.manager.plane_check import PlaneCheck, PlaneRole, WrongPlane
from datum_compute.client import discovery, errors
from datum_compute.client.protocol import Client

OLDEST = (1, 30)
"""Of Kubernetes: the first with the admission policy that the hub gets. Tests run on 1.32."""
SHOWN = 5
"""Missing fields of one kind that are listed."""


class Verdict(StrEnum):
    OK = "ok"
    MISSING = "missing"
    UNKNOWN = "not checked"


@dataclass(frozen=True, slots=True)
class PlaneFinding:
    plane: str
    verdict: Verdict
    text: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class GrantedRights:
    """What a process needs on a plane, and the folder that grants it."""

    rules: Sequence[PolicyRule]
    folder: str
    namespace: str = ""
    """Empty means every namespace."""


@dataclass(frozen=True, slots=True)
class PlaneUnderCheck:
    name: str
    client: Client
    needs: Sequence[GrantedRights]
    role: PlaneRole | None = None
    """None where the plane only holds the Lease, or projects."""
    user: str = ""
    """Who the manager must be there; empty where that does not matter."""


class PlaneFindings:
    """``networking``: whether the cell serves the kinds of network services."""

    def __init__(self, *, networking: bool) -> None:
        self.found: list[PlaneFinding] = []
        self._networking = networking

    async def check_plane(self, plane: PlaneUnderCheck) -> bool:
        """Whether it can be asked for more."""
        try:
            review = await plane.client.create(core.SELF_SUBJECT_REVIEWS, {})
            version = msgspec.json.decode(await plane.client.raw("/version"), type=_Version)
        except errors.Unauthorized:
            self.missing(plane, "the API server refuses the credential (401)")
            return False
        except errors.Forbidden as error:
            self.missing(plane, f"this identity may not use the plane: {error}")
            return False
        except (errors.ClientError, msgspec.DecodeError) as error:
            self.missing(plane, f"no answer: {error}")
            return False
        user = review.view(core.SelfSubjectReview).status.user_info.username
        self._add(plane, Verdict.OK, f"answers as Kubernetes {version.git_version} to {user}")
        self._check_identity(plane, user)
        if version.is_older(OLDEST):
            oldest = ".".join(map(str, OLDEST))
            self.missing(plane, f"Kubernetes {version.git_version} is older than {oldest}")
        try:
            if plane.role is not None:
                await PlaneCheck(plane.name, plane.role, plane.client).verify()
        except WrongPlane as error:
            self.missing(plane, str(error).removeprefix(f"{plane.name}: "))
            return False
        except errors.ClientError as error:
            self.missing(plane, str(error).removeprefix(f"{plane.name}: "))
        await self._check_rights(plane)
        await self._check_kinds(plane)
        return True

    def _check_identity(self, plane: PlaneUnderCheck, user: str) -> None:
        if plane.user and user != plane.user:
            self.missing(
                plane,
                f"acts as {user}, not as {plane.user}: the hub holds each cell to its own name",
            )

    async def _check_rights(self, plane: PlaneUnderCheck) -> None:
        for need in plane.needs:
            wanted = [(rule, verb) for rule in need.rules for verb in rule.verbs]
            allowed = await asyncio.gather(
                *(_may(plane.client, rule, verb, need.namespace) for rule, verb in wanted),
                return_exceptions=True,
            )
            refused: dict[str, list[str]] = {}
            for (rule, verb), answer in zip(wanted, allowed, strict=True):
                name = f"{rule.resource}.{rule.group}" if rule.group else rule.resource
                if isinstance(answer, errors.ClientError):
                    self.unknown(plane, f"right to {verb} {name}: {answer}")
                elif isinstance(answer, BaseException):
                    raise answer
                elif not answer:
                    refused.setdefault(name, []).append(verb)
            where = f" in namespace {need.namespace}" if need.namespace else ""
            for name, verbs in refused.items():
                text = f"no right to {', '.join(verbs)} {name}{where}"
                self.missing(plane, text, f"kubectl apply -k {need.folder}")
            if wanted and not refused:
                self._add(plane, Verdict.OK, f"rights of {need.folder}")

    async def _check_kinds(self, plane: PlaneUnderCheck) -> None:
        by_version: dict[str, list[Resource]] = {}
        for resource in self._kinds(plane.needs):
            by_version.setdefault(resource.api_version, []).append(resource)
        for version, wanted in sorted(by_version.items()):
            try:
                served = {each.name for each in await discovery.served_kinds(plane.client, version)}
            except (errors.NotFound, errors.NotServed):
                served = set()
            except (errors.ClientError, msgspec.DecodeError) as error:
                self.unknown(plane, f"kinds of {version}: {error}")
                continue
            for resource in wanted:
                if resource.plural not in served:
                    text = f"{resource.group_resource} is not defined"
                    self.missing(plane, text, _source_of(resource.group))
            if version == compute.WORKLOADS.api_version and served:
                await self._check_fields(plane, [each for each in wanted if each.plural in served])

    def _kinds(self, needs: Iterable[GrantedRights]) -> Iterator[Resource]:
        """The kinds that the rights are about, as far as the settings make use of them."""
        about = {
            (rule.group, rule.resource.partition("/")[0]) for need in needs for rule in need.rules
        }
        for kind in KINDS:
            resource = kind.resource
            only_with_networking = resource.group == networking.NETWORKS.group and resource not in (
                networking.NETWORKS,
                networking.LOCATION_BINDINGS,
            )
            if (resource.group, resource.plural) in about and (
                self._networking or not only_with_networking
            ):
                yield resource

    async def _check_fields(self, plane: PlaneUnderCheck, kinds: Sequence[Resource]) -> None:
        """Definitions of another version: a field that is not defined is dropped by the server."""
        path = f"/openapi/v3/apis/{compute.WORKLOADS.api_version}"
        try:
            document = msgspec.json.decode(await plane.client.raw(path))
            served = _schemas_of(document)
        except (errors.ClientError, msgspec.DecodeError) as error:
            self.unknown(plane, f"fields of the kinds of compute: {error}")
            return
        for resource in kinds:
            lacking = sorted(
                _fields(_own_schema(resource)) - _fields(served.get(resource.kind, {}))
            )
            if lacking:
                more = f" and {len(lacking) - SHOWN} more" if len(lacking) > SHOWN else ""
                self.missing(
                    plane,
                    f"{resource.group_resource} is of another version:"
                    f" it lacks {', '.join(lacking[:SHOWN])}{more}",
                    "kubectl apply -k deploy/crds",
                )
            else:
                self._add(plane, Verdict.OK, f"definition of {resource.group_resource}")

    async def list_objects(self, plane: PlaneUnderCheck, resource: Resource) -> list[Object] | None:
        """None where they cannot be read; another check reports a missing right or kind."""
        try:
            return (await plane.client.list(resource)).items
        except errors.ClientError as error:
            self.unknown(plane, f"{resource.group_resource}: {error}")
            return None

    def missing(self, plane: PlaneUnderCheck, text: str, fix: str = "") -> None:
        self.found.append(PlaneFinding(plane.name, Verdict.MISSING, text, fix))

    def unknown(self, plane: PlaneUnderCheck, text: str) -> None:
        self._add(plane, Verdict.UNKNOWN, text)

    def _add(self, plane: PlaneUnderCheck, verdict: Verdict, text: str) -> None:
        self.found.append(PlaneFinding(plane.name, verdict, text))


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""

    def is_older(self, than: tuple[int, int]) -> bool:
        found = re.match(r"v(\d+)\.(\d+)", self.git_version)
        return found is not None and (int(found[1]), int(found[2])) < than


async def _may(client: Client, rule: PolicyRule, verb: str, namespace: str) -> bool:
    resource, _, subresource = rule.resource.partition("/")
    attributes = {
        "verb": verb,
        "group": rule.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
    }
    body = {"spec": {"resourceAttributes": attributes}}
    review = await client.create(core.SELF_SUBJECT_ACCESS_REVIEWS, body)
    return review.view(core.SubjectAccessReview).status.allowed


def _source_of(group: str) -> str:
    if group == compute.WORKLOADS.group:
        return "kubectl apply -k deploy/crds"
    if group.endswith(".karmada.io"):
        return "Karmada brings it"
    return "network services bring it" if group == networking.NETWORKS.group else "Milo brings it"


def _own_schema(resource: Resource) -> Mapping[str, Any]:
    [found] = [
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for crd in all_crds()
        if crd["metadata"]["name"] == resource.group_resource
    ]
    schema: Mapping[str, Any] = found
    return schema


def _schemas_of(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The schemas of a document of OpenAPI 3, by kind."""
    schemas = (document.get("components") or {}).get("schemas") or {}
    return {
        each["kind"]: schema
        for schema in schemas.values()
        for each in schema.get("x-kubernetes-group-version-kind") or ()
    }


def _fields(schema: Mapping[str, Any]) -> set[str]:
    """The paths below spec and status."""
    return {
        path
        for part in ("spec", "status")
        for path in _paths((schema.get("properties") or {}).get(part) or {}, part)
    }


def _paths(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    yield path
    for name, below in (schema.get("properties") or {}).items():
        yield from _paths(below, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from _paths(schema[key], f"{path}[]")
