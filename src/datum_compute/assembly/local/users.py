"""People on a local platform: users with one of three roles in projects.

A user's memberships are groups in the store, ``compute-editor:shop:<uid>``: role, project, and
the uid of the Project, so that a project created again under the name of a deleted one begins
without members. They become grants on the plane of that project and on nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.kinds import KINDS
from datum_compute.api.name_patterns import DNS_SUBDOMAIN
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.planes import PROJECT, ROOT
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager.v1alpha1 import PROJECTS
from datum_compute.api.scheme import Resource
from datum_compute.api.services import v1alpha1 as services
from datum_compute.apiserver.request.access import PolicyRule, token_hash
from datum_compute.apiserver.request.roles import Roles
from datum_compute.apiserver.storage.protocol import PlaneStore, Store, StoreEvent, Table
from datum_compute.assembly.local.state_reader import USER_ROLES
from datum_compute.env import Environment

_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete", "deletecollection")
_READABLE_BUILTINS = (
    ("", "configmaps"),
    ("", "events"),
    ("", "namespaces"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("events.k8s.io", "events"),
)
RESERVED = ("compute-", "local-", "provider-", "standin-", "system")
"""What the names of the platform's own users begin with."""
RESERVED_NAMES = ", ".join(RESERVED)
MAX_NAME = 63
_PROJECTS = PROJECTS.group_resource


class UserRefused(Exception):
    """The request cannot be fulfilled; the message says why."""


def _rules(verbs: tuple[str, ...], *resources: Resource | tuple[str, str]) -> list[PolicyRule]:
    named = [
        (each.group, each.plural) if isinstance(each, Resource) else each for each in resources
    ]
    return [PolicyRule(group, plural, verbs) for group, plural in named]


def _viewer() -> list[PolicyRule]:
    """Reads everything but Secrets."""
    kinds = [kind.resource for kind in KINDS if PROJECT in kind.planes]
    of_instances = (compute.INSTANCES.group, f"{compute.INSTANCES.plural}/log")
    return [
        *_rules(_READ, *kinds, *_READABLE_BUILTINS),
        *_rules(("get",), *((kind.group, f"{kind.plural}/status") for kind in kinds)),
        *_rules(("get",), of_instances),
    ]


def _editor() -> list[PolicyRule]:
    """Writes what runs and what it uses, and runs commands in it."""
    # As in Kubernetes' own role of this name.
    commands = (compute.INSTANCES.group, f"{compute.INSTANCES.plural}/exec")
    return [
        *_viewer(),
        *_rules(_READ, ("", "secrets")),
        *_rules(_WRITE, compute.WORKLOADS, networking.NETWORKS),
        *_rules(_WRITE, ("", "configmaps"), ("", "secrets")),
        *_rules(("create",), commands),
        *_rules(("use",), networking.NETWORKS),
        # A restart of one city is written to its deployment.
        *_rules(("patch",), compute.WORKLOAD_DEPLOYMENTS),
    ]


def _admin() -> list[PolicyRule]:
    """Writes the access and the quota of the project, too."""
    return [
        *_editor(),
        *_rules(
            _WRITE, services.SERVICE_ENTITLEMENTS, quota.RESOURCE_GRANTS, quota.RESOURCE_CLAIMS
        ),
    ]


ROLES = dict(zip(USER_ROLES, map(tuple, (_viewer(), _editor(), _admin())), strict=True))
"""What each role may do on the plane of a project."""


class Membership(msgspec.Struct, frozen=True):
    """A role of a user in a project."""

    user: str
    project: str
    role: str


class LocalUsers:
    """The people who use one platform. Its processes are users too, and none of these."""

    def __init__(self, env: Environment, store: Store, roles: Roles) -> None:
        self._env = env
        self._store = store
        self._roles = roles
        store.subscribe(self._on_change)

    def restore(self) -> None:
        """Grant what is stored, after a start."""
        for each in self.all():
            self._roles.grant(each.user, PROJECT.plane(each.project), ROLES[each.role])

    def all(self) -> list[Membership]:
        """By user and project."""
        found = [
            Membership(user.name, project, role)
            for user in self._store.users.values()
            for role, project, uid in _parsed(user.groups)
            if uid == self._uid(project)
        ]
        return sorted(found, key=lambda each: (each.user, each.project))

    def add(self, name: str, project: str, role: str) -> str | None:
        """Give a user a role in a project, in place of an earlier one, whose watches end. The token
        of a new user; None for one that has a token already. Raises UserRefused."""
        if re.fullmatch(DNS_SUBDOMAIN, name) is None or len(name) > MAX_NAME:
            raise UserRefused(
                f'user "{name}": expected at most {MAX_NAME} lower-case letters, digits, - and .'
            )
        if name.startswith(RESERVED):
            raise UserRefused(f'user "{name}": names of the platform begin with {RESERVED_NAMES}')
        if role not in ROLES:
            raise UserRefused(f'role "{role}": expected one of {", ".join(ROLES)}')
        uid = self._uid(project)
        if uid is None:
            raise UserRefused(f'project "{project}" does not exist')
        known = {user.name: (key, user.groups) for key, user in self._store.users.items()}
        token = None
        if name in known:
            key, groups = known[name]
        else:
            token = self._env.new_token()
            key, groups = token_hash(token), ()
        kept = [each for each in groups if each not in _groups_in(groups, project)]
        self._store.add_user(name, [*kept, f"compute-{role}:{project}:{uid}"], key)
        self._roles.grant(name, PROJECT.plane(project), ROLES[role])
        if len(kept) != len(groups):
            self._end_watches(project)
        return token

    def remove(self, name: str) -> bool:
        """Remove a user with all roles; False if there is none of this name. Its watches end, and
        with them all others of its projects: their clients watch again."""
        mine = [user for user in self._store.users.values() if user.name == name]
        memberships = [each for user in mine for each in _parsed(user.groups)]
        if not memberships:
            return False
        self._store.remove_user(name)
        for _, project, _ in memberships:
            self._roles.revoke(name, PROJECT.plane(project))
            self._end_watches(project)
        return True

    def _end_watches(self, project: str) -> None:
        plane = self._store.planes.get(PROJECT.plane(project))
        if plane is not None:
            plane.end_watches()

    def _uid(self, project: str) -> str | None:
        root = self._store.planes.get(ROOT.plane())
        found = root.table(_PROJECTS).get("", project) if root is not None else None
        return found.uid if found is not None else None

    def _on_change(self, plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        """The members of a project lose their roles with it."""
        if event.deleted and table.resource == _PROJECTS and plane.name == ROOT.plane():
            for user in self._store.users.values():
                if _groups_in(user.groups, event.after.name):
                    self._roles.revoke(user.name, PROJECT.plane(event.after.name))


def _parsed(groups: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Role, project and uid of each membership."""
    for group in groups:
        name, _, rest = group.partition(":")
        project, _, uid = rest.partition(":")
        role = name.removeprefix("compute-")
        if role in ROLES and role != name and uid:
            yield role, project, uid


def _groups_in(groups: Iterable[str], project: str) -> list[str]:
    return [each for each in groups if any(one[1] == project for one in _parsed([each]))]
