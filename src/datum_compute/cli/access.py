"""Whether a project may use compute: its entitlement as messages and exit codes.

Checked before a command runs, with one plain read. A platform without entitlements enables compute
for every project. One that does not let the user read them counts as enabled too: the server
refuses what is not allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain import states
from datum_compute.cli.explain.suggestions import Remark, Suggestion, command
from datum_compute.cli.render.output import age
from datum_compute.cli.tables import PROJECTS, SERVICE_COMPUTE, SERVICE_ENTITLEMENTS
from datum_compute.client import errors

if TYPE_CHECKING:
    from datum_compute.client.client import ApiClient

Json = Mapping[str, Any]

ENTITLEMENT = "compute"
ACTIVATION_SECONDS = 30.0
"""How long a command waits for a request it has just made."""
POLL_SECONDS = 1.0
MAX_NAMED = 10
REQUEST = command("access", "request")
REQUEST_AND_WAIT = command("access", "request", "--wait")


class AccessState(Enum):
    ACTIVE = "active"
    NOT_REQUESTED = "not requested"
    PENDING = "pending"
    DENIED = "denied"
    REVOKED = "revoked"
    SUSPENDED = "suspended"
    NOT_OFFERED = "not offered"
    UNGOVERNED = "not needed"
    """The platform has no entitlements, or they cannot be read."""

    @property
    def usable(self) -> bool:
        return self in (AccessState.ACTIVE, AccessState.UNGOVERNED)


EXITS = {
    AccessState.ACTIVE: Exit.DONE,
    AccessState.UNGOVERNED: Exit.DONE,
    AccessState.NOT_REQUESTED: Exit.ACCESS_NOT_REQUESTED,
    AccessState.PENDING: Exit.ACCESS_PENDING,
    AccessState.DENIED: Exit.ACCESS_DENIED,
    AccessState.REVOKED: Exit.ACCESS_DENIED,
    AccessState.SUSPENDED: Exit.ACCESS_DENIED,
    AccessState.NOT_OFFERED: Exit.UNAVAILABLE,
}


class Access(NamedTuple):
    state: AccessState
    entitlement: Json | None = None

    @property
    def requested(self) -> str:
        metadata = (self.entitlement or {}).get("metadata") or {}
        return str(metadata.get("creationTimestamp", ""))

    @property
    def message(self) -> str:
        """The message of the entitlement's condition."""
        if self.entitlement is None:
            return ""
        return str(states.condition(self.entitlement, "Ready").get("message", ""))


def access_of(entitlement: Json) -> Access:
    status = entitlement.get("status") or {}
    phase = status.get("phase", "")
    ready = states.condition(entitlement, "Ready")
    if states.is_true(entitlement, "Suspended"):
        return Access(AccessState.SUSPENDED, entitlement)
    if phase == "Rejected" or ready.get("reason") == "EntitlementRejected":
        revoked = bool(status.get("entitledAt"))
        return Access(AccessState.REVOKED if revoked else AccessState.DENIED, entitlement)
    if entitlement["metadata"].get("deletionTimestamp"):
        return Access(AccessState.REVOKED, entitlement)
    if ready.get("status") == "True" or (not ready and phase == "Active"):
        return Access(AccessState.ACTIVE, entitlement)
    if ready.get("reason") == "ServiceNotPublished":
        return Access(AccessState.NOT_OFFERED, entitlement)
    return Access(AccessState.PENDING, entitlement)


def read_access(context: Context) -> Access:
    try:
        return access_of(context.reader.get(SERVICE_ENTITLEMENTS, ENTITLEMENT))
    except errors.NotFound:
        return Access(AccessState.NOT_REQUESTED)
    except errors.NotServed:
        _check_project(context)
        return Access(AccessState.UNGOVERNED)
    except (errors.Forbidden, errors.Unsupported):
        return Access(AccessState.UNGOVERNED)


def _check_project(context: Context) -> None:
    """Raise if the platform lists projects and this is not one of them. The project's plane does
    not serve entitlements: the platform has none, or there is no such project."""
    root = context.target.root()
    if root is None:
        return
    try:
        known = sorted(str(each["metadata"]["name"]) for each in root.list(PROJECTS))
    except errors.ClientError:
        return  # the user may not list projects
    project = context.target.project
    if project in known:
        return
    named = ", ".join(known[:MAX_NAMED]) + (", …" if len(known) > MAX_NAMED else "")
    raise CommandError(
        f'project "{project}" not found; available: {named or "none"}',
        _suggestion(project, known),
        exit_code=Exit.NOT_FOUND,
        code="NotFound",
    )


def _suggestion(project: str, known: list[str]) -> Suggestion:
    import difflib

    nearest = difflib.get_close_matches(project, known, n=1) or known
    if not nearest:
        return Remark("check --project")
    return command("workloads", "--project", nearest[0])


def check_access(context: Context) -> None:
    """Return only where compute is enabled; on a terminal offer to request access."""
    access = read_access(context)
    if access.state.usable:
        return
    if access.state is AccessState.NOT_REQUESTED and context.streams.interactive:
        _offer(context)
        return
    raise access_error(context, access)


def _offer(context: Context) -> None:
    project = context.target.project
    context.say(f'Compute is not enabled for project "{project}".')
    # No flag answers this: a request needs a decision by the user and work by the approver.
    question = "Would you like to request access? [y/N] "
    if context.ask(question).strip().lower() not in ("y", "yes"):
        raise CommandError("declined", exit_code=Exit.DECLINED, code="Declined")

    async def ask(client: ApiClient) -> Access:
        await request_access(client, "")
        return await wait_decided(client, ACTIVATION_SECONDS)

    access = context.open_session().run(ask)
    if access.state is AccessState.PENDING:
        raise CommandError(
            "Requested. Activation usually takes a few minutes.",
            REQUEST_AND_WAIT,
            exit_code=Exit.ACCESS_PENDING,
            code="AccessPending",
            retryable=True,
            pending=True,
        )
    if not access.state.usable:
        raise access_error(context, access)
    context.say("Compute is enabled.\n")


async def request_access(client: ApiClient, message: str) -> bool:
    """Request access; False if it was requested before."""
    spec: dict[str, Any] = {"serviceRef": {"name": SERVICE_COMPUTE}}
    if message:
        spec["requestMessage"] = message
    body = {
        "apiVersion": SERVICE_ENTITLEMENTS.api_version,
        "kind": SERVICE_ENTITLEMENTS.kind,
        "metadata": {"name": ENTITLEMENT},
        "spec": spec,
    }
    try:
        await client.create(SERVICE_ENTITLEMENTS, body)
    except errors.AlreadyExists:
        return False
    return True


async def wait_decided(client: ApiClient, seconds: float) -> Access:
    """The state of the request once it is decided, or when the time is up."""
    import asyncio

    from datum_compute.cli.session import to_dict

    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        try:
            found = to_dict(await client.get(SERVICE_ENTITLEMENTS, ENTITLEMENT))
            access = access_of(found)
        except errors.NotFound:
            return Access(AccessState.NOT_REQUESTED)
        answered = access.state is not AccessState.PENDING and (found.get("status") or {}) != {}
        if answered or loop.time() + POLL_SECONDS > deadline:
            return access
        await asyncio.sleep(POLL_SECONDS)


def access_error(context: Context, access: Access) -> CommandError:
    """Why a command cannot run, with a message for each state."""
    project, state = context.target.project, access.state
    detail = f": {access.message}" if access.message else ""
    if state is AccessState.PENDING:
        since = age(access.requested, context.env.now())
        return CommandError(
            f"Access to compute was requested {since} ago and is being activated. "
            "Try again in a moment, or wait for it.",
            REQUEST_AND_WAIT,
            exit_code=Exit.ACCESS_PENDING,
            code="AccessPending",
            retryable=True,
            pending=True,
        )
    texts = {
        AccessState.NOT_REQUESTED: f'compute is not enabled for project "{project}"',
        AccessState.DENIED: f'access to compute was denied for project "{project}"{detail}',
        AccessState.REVOKED: f'access to compute was revoked for project "{project}"{detail}',
        AccessState.SUSPENDED: (
            f'project "{project}" is suspended, so it has no access to compute'
        ),
        AccessState.NOT_OFFERED: f'compute is not offered to project "{project}" on this platform',
    }
    codes = {
        AccessState.NOT_REQUESTED: "AccessNotRequested",
        AccessState.NOT_OFFERED: "ServiceUnavailable",
        AccessState.DENIED: "AccessDenied",
    }
    return CommandError(
        texts[state],
        REQUEST if state is AccessState.NOT_REQUESTED else None,
        exit_code=EXITS[state],
        code=codes.get(state, "AccessRevoked"),
    )
