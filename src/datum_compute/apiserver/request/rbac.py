"""Rights by Role, ClusterRole and their bindings: each plane has its own, beside the roles that
the platform grants.

The objects are indexed as they change. They are asked only where the platform's grants do not
allow a request, so that the platform's own processes do not pay for them. A rule cannot take a
right away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import decode_json
from datum_compute.apiserver.request import access
from datum_compute.apiserver.request.access import MASTERS, Attributes, Authorizer, RequestUser
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.request.roles import is_open_to_members
from datum_compute.apiserver.storage.protocol import PlaneStore, Store, StoreEvent, Table

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
BINDINGS, CLUSTER_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
_TABLES = (ROLES, CLUSTER_ROLES, BINDINGS, CLUSTER_BINDINGS)
_WRITES = frozenset({"create", "update", "patch"})


MAX_ROLE = 128 * 1024
"""Bytes of a role or binding in a request. A guess: a hundred times what they have. They are
written on the loop, which knows what a user may grant."""
MAX_PARTS = 10_000
"""Permissions that are compared with what their giver has: some 50 ms."""


class Rule(msgspec.Struct, frozen=True, gc=False):
    """A rule of a role, as it is stored. ``*`` stands for all."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    """With a subresource as ``pods/log`` or ``*/log``."""
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()

    def allows(self, asked: Attributes) -> bool:
        if not _has(self.verbs, asked.verb):
            return False
        if asked.path:
            return any(_url_covers(url, asked.path) for url in self.non_resource_urls)
        resource = asked.resource + (f"/{asked.subresource}" if asked.subresource else "")
        return (
            _has(self.api_groups, asked.group)
            and _resource_covers(self.resources, resource)
            and (not self.resource_names or asked.name in self.resource_names)
        )

    def covers(self, part: Rule) -> bool:
        """Whether this rule gives all that a rule of one verb and one resource or path gives."""
        if not _has(self.verbs, part.verbs[0]):
            return False
        if part.non_resource_urls:
            return any(
                _url_covers(url, part.non_resource_urls[0]) for url in self.non_resource_urls
            )
        named = not self.resource_names or set(part.resource_names) & set(self.resource_names)
        return (
            _has(self.api_groups, part.api_groups[0])
            and _resource_covers(self.resources, part.resources[0])
            and bool(named)
        )

    @property
    def size(self) -> int:
        """How many :meth:`parts` it has, at most."""
        of_resources = len(self.api_groups) * len(self.resources)
        of_resources *= max(1, len(self.resource_names))
        return len(self.verbs) * (len(self.non_resource_urls) + of_resources)

    def parts(self) -> Iterator[Rule]:
        """The same as rules of one verb and one resource or path each."""
        for verb in self.verbs:
            for url in self.non_resource_urls:
                yield Rule((verb,), non_resource_urls=(url,))
            for group in self.api_groups:
                for resource in self.resources:
                    for name in self.resource_names or ("",):
                        named = (name,) if name else ()
                        yield Rule((verb,), (group,), (resource,), named)

    def to_wire(self) -> dict[str, Any]:
        wire = {
            "verbs": self.verbs,
            "apiGroups": self.api_groups,
            "resources": self.resources,
            "resourceNames": self.resource_names,
            "nonResourceURLs": self.non_resource_urls,
        }
        return {key: list(values) for key, values in wire.items() if values}

    def __str__(self) -> str:
        named = {
            "APIGroups": self.api_groups,
            "Resources": self.resources,
            "ResourceNames": self.resource_names,
            "NonResourceURLs": self.non_resource_urls,
            "Verbs": self.verbs,
        }
        listed = (
            f"{key}:[{' '.join(map(_quoted, values))}]" for key, values in named.items() if values
        )
        return "{" + ", ".join(listed) + "}"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _has(values: tuple[str, ...], value: str) -> bool:
    return value in values or "*" in values


def _resource_covers(resources: tuple[str, ...], resource: str) -> bool:
    _, slash, subresource = resource.partition("/")
    return _has(resources, resource) or bool(slash and f"*/{subresource}" in resources)


def _url_covers(url: str, path: str) -> bool:
    return url == path or (url.endswith("*") and path.startswith(url.rstrip("*")))


def rules_of(role: dict[str, Any]) -> tuple[Rule, ...]:
    """Of a role as it is stored, or as it was sent: what has another type is refused later."""
    return tuple(_rule(each) for each in _objects(role.get("rules")))


def _rule(wire: dict[str, Any]) -> Rule:
    keys = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return Rule(*(_texts(wire.get(key)) for key in keys))


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


_Subject = tuple[str, str]
"""``User`` or ``Group``, and its name; a ServiceAccount is a user."""


class _Binding(msgspec.Struct, frozen=True, gc=False):
    namespace: str
    """Where it holds; empty for everywhere."""
    role: tuple[str, str]
    """Namespace, empty for a ClusterRole, and name."""
    subjects: tuple[_Subject, ...]
    name: str

    @property
    def named(self) -> str:
        """As reviews name it."""
        kind = "ClusterRole" if not self.role[0] else "Role"
        own = f'RoleBinding "{self.name}/{self.namespace}"'
        own = own if self.namespace else f'ClusterRoleBinding "{self.name}"'
        return f'{own} of {kind} "{self.role[1]}"'


class _PlaneRights:
    """What the objects of one plane grant."""

    def __init__(self, store: PlaneStore) -> None:
        self.store = store
        self.roles: dict[tuple[str, str], tuple[Rule, ...]] = {}
        self._bindings: dict[tuple[str, str], _Binding] = {}
        self._by_subject: dict[_Subject, dict[tuple[str, str], _Binding]] = {}
        for resource in _TABLES:
            for row in store.table(resource).in_order(None):
                self.put(resource, (row.namespace, row.name), decode_json(store.value(row)))

    def put(self, resource: str, key: tuple[str, str], obj: dict[str, Any] | None) -> None:
        """Take over a change; None for a deletion."""
        if resource in (ROLES, CLUSTER_ROLES):
            if obj is None:
                self.roles.pop(key, None)
            else:
                self.roles[key] = rules_of(obj)
            return
        before = self._bindings.pop(key, None)
        for subject in before.subjects if before is not None else ():
            self._by_subject[subject].pop(key, None)
        if obj is None:
            return
        binding = self._bindings[key] = _binding(obj)
        for subject in binding.subjects:
            self._by_subject.setdefault(subject, {})[key] = binding

    def bindings_of(self, user: RequestUser) -> Iterator[_Binding]:
        if not self._bindings:
            return
        for subject in (("User", user.name), *(("Group", group) for group in user.groups)):
            yield from self._by_subject.get(subject, {}).values()

    def rules(self, user: RequestUser, namespace: str) -> Iterator[Rule]:
        for binding in self.bindings_of(user):
            if not binding.namespace or binding.namespace == namespace:
                yield from self.roles.get(binding.role, ())


def _binding(obj: dict[str, Any]) -> _Binding:
    namespace = obj["metadata"].get("namespace", "")
    reference = next(iter(_objects([obj.get("roleRef")])), {})
    role = (namespace if reference.get("kind") == "Role" else "", str(reference.get("name")))
    subjects = tuple(_subject(each, namespace) for each in _objects(obj.get("subjects")))
    return _Binding(namespace, role, subjects, str(obj["metadata"].get("name")))


def _subject(wire: dict[str, Any], namespace: str) -> _Subject:
    kind, name = str(wire.get("kind")), str(wire.get("name"))
    if kind == "ServiceAccount":
        return "User", f"system:serviceaccount:{wire.get('namespace') or namespace}:{name}"
    return kind, name


class Rights:
    """The authorizer of a server: the platform's grants, and the objects of each plane."""

    def __init__(self, granted: Authorizer, store: Store) -> None:
        self._granted = granted
        self._store = store
        self._planes: dict[str, _PlaneRights] = {}
        store.subscribe(self._on_change)

    def allows(self, user: RequestUser, attributes: Attributes) -> bool:
        if self._granted.allows(user, attributes):
            return True
        plane = self._plane(attributes.plane)
        if plane is None:
            return False
        if next(plane.bindings_of(user), None) is None:
            return False
        if is_open_to_members(user, attributes):
            return True
        rules = plane.rules(user, _namespace(attributes))
        return any(rule.allows(attributes) for rule in rules)

    def reason(self, user: RequestUser, attributes: Attributes) -> str:
        """The binding that allows it; empty where the platform itself does, or nothing."""
        plane = self._plane(attributes.plane)
        if plane is None or self._granted.allows(user, attributes):
            return ""
        namespace = _namespace(attributes)
        for binding in plane.bindings_of(user):
            rules = plane.roles.get(binding.role, ())
            holds = not binding.namespace or binding.namespace == namespace
            if holds and any(rule.allows(attributes) for rule in rules):
                return f"RBAC: allowed by {binding.named} to {_named(user, binding)}"
        return ""

    def rules(self, user: RequestUser, plane_name: str, namespace: str) -> list[Rule]:
        """All that the user may do in a namespace, or with an empty one in all of them."""
        granted = [
            Rule(rule.verbs, (rule.group,), (rule.resource,))
            for rule in self._granted.rules(user, plane_name)
        ]
        plane = self._plane(plane_name)
        paths = Rule(("get",), non_resource_urls=self._granted.paths(user))
        return [*granted, *(plane.rules(user, namespace) if plane is not None else ()), paths]

    def check_grant(self, call: RequestContext, obj: dict[str, Any]) -> None:
        """Raise 403 for a role or a binding that gives more than its writer has, and is not allowed
        to give. ``obj`` is what is about to be stored."""
        kind, user = call.kind, call.user
        if kind.resource.group != GROUP:
            return
        if MASTERS in user.groups:
            return
        namespace, plane = call.target.namespace, call.plane.name
        if kind.stored_as in (ROLES, CLUSTER_ROLES):
            verb, plural, name = "escalate", kind.resource.plural, call.target.name
            given = rules_of(obj)
        else:
            role = _binding(obj).role
            verb, name = "bind", role[1]
            plural = "roles" if role[0] else "clusterroles"
            rights = self._plane(plane)
            given = rights.roles.get(role, ()) if rights is not None else ()
        if self.allows(user, Attributes(verb, plane, GROUP, plural, "", namespace, name)):
            return
        name = str(obj["metadata"].get("name") or "")
        if sum(rule.size for rule in given) > MAX_PARTS:
            why = f"a user grants {MAX_PARTS} permissions at a time without the right to {verb}"
            raise errors.forbidden(kind.resource, name, why)
        held = self.rules(user, plane, namespace)
        missing = [part for rule in given for part in rule.parts() if not _is_covered(part, held)]
        if missing:
            raise errors.forbidden(kind.resource, name, _excess(user, missing))

    def _plane(self, name: str) -> _PlaneRights | None:
        store = self._store.planes.get(name)
        if store is None:
            self._planes.pop(name, None)
            return None
        found = self._planes.get(name)
        if found is None or found.store is not store:  # the plane is another of the same name
            found = self._planes[name] = _PlaneRights(store)
        return found

    def _on_change(self, store: PlaneStore, table: Table, event: StoreEvent) -> None:
        known = self._planes.get(store.name)
        if table.resource in _TABLES and known is not None and known.store is store:
            after = event.after
            obj = None if event.deleted else decode_json(after.raw)
            known.put(table.resource, (after.namespace, after.name), obj)


def _named(user: RequestUser, binding: _Binding) -> str:
    for kind, name in binding.subjects:
        if (kind, name) == ("User", user.name) or (kind == "Group" and name in user.groups):
            account = access.split_service_account(name) if kind == "User" else None
            return f'ServiceAccount "{account[1]}/{account[0]}"' if account else f'{kind} "{name}"'
    return ""


def _namespace(attributes: Attributes) -> str:
    """A namespace is in itself: a right in it covers it."""
    if attributes.resource == "namespaces" and not attributes.group:
        return attributes.name
    return attributes.namespace


def _is_covered(part: Rule, held: Iterable[Rule]) -> bool:
    return any(rule.covers(part) for rule in held)


MAX_LISTED = 20


def _excess(user: RequestUser, missing: list[Rule]) -> str:
    listed = "\n".join(map(str, missing[:MAX_LISTED]))
    return (
        f'user "{user.name}" (groups={list(user.groups)}) is attempting to grant RBAC permissions'
        f" not currently held:\n{listed}"
    )
