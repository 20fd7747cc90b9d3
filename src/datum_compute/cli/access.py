"""Whether a project may use compute: what its entitlement says, in words and exit codes.

Looked at before a command runs, with one plain read. A platform that does not know
entitlements enables compute for everybody, and so does one that does not let us read them:
what is not allowed there it refuses itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from datum_compute.api.typed import Any, NamedTuple
from datum_compute.cli import words
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.output import age
from datum_compute.cli.resources import SERVICE_ENTITLEMENTS
from datum_compute.client import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datum_compute.client.client import ApiClient

Json = Mapping[str, Any]

ENTITLEMENT = "compute"
SERVICE = "compute.datumapis.com"
ACTIVATION_SECONDS = 30.0
"""How long a command waits for a request it has just made."""
POLL_SECONDS = 1.0
REQUEST = "datumctl-compute access request"


class State(Enum):
    ACTIVE = "active"
    NOT_REQUESTED = "not requested"
    PENDING = "pending"
    DENIED = "denied"
    REVOKED = "revoked"
    SUSPENDED = "suspended"
    NOT_OFFERED = "not offered"
    UNGOVERNED = "not needed"
    """The platform knows no entitlements."""

    @property
    def usable(self) -> bool:
        return self in (State.ACTIVE, State.UNGOVERNED)


EXITS = {
    State.ACTIVE: Exit.DONE,
    State.UNGOVERNED: Exit.DONE,
    State.NOT_REQUESTED: Exit.ACCESS_NOT_REQUESTED,
    State.PENDING: Exit.ACCESS_PENDING,
    State.DENIED: Exit.ACCESS_DENIED,
    State.REVOKED: Exit.ACCESS_DENIED,
    State.SUSPENDED: Exit.ACCESS_DENIED,
    State.NOT_OFFERED: Exit.UNAVAILABLE,
}


class Access(NamedTuple):
    state: State
    entitlement: Json | None = None

    @property
    def requested(self) -> str:
        metadata = (self.entitlement or {}).get("metadata") or {}
        return str(metadata.get("creationTimestamp", ""))

    @property
    def said(self) -> str:
        """What the provider says about it."""
        if self.entitlement is None:
            return ""
        return str(words.condition(self.entitlement, "Ready").get("message", ""))


def access_of(entitlement: Json) -> Access:
    status = entitlement.get("status") or {}
    phase = status.get("phase", "")
    ready = words.condition(entitlement, "Ready")
    if words.is_true(entitlement, "Suspended"):
        return Access(State.SUSPENDED, entitlement)
    if phase == "Rejected" or ready.get("reason") == "EntitlementRejected":
        revoked = bool(status.get("entitledAt"))
        return Access(State.REVOKED if revoked else State.DENIED, entitlement)
    if entitlement["metadata"].get("deletionTimestamp"):
        return Access(State.REVOKED, entitlement)
    if ready.get("status") == "True" or (not ready and phase == "Active"):
        return Access(State.ACTIVE, entitlement)
    if ready.get("reason") == "ServiceNotPublished":
        return Access(State.NOT_OFFERED, entitlement)
    return Access(State.PENDING, entitlement)


def look(context: Context) -> Access:
    try:
        return access_of(context.reader.get(SERVICE_ENTITLEMENTS, ENTITLEMENT))
    except errors.NotFound:
        return Access(State.NOT_REQUESTED)
    except errors.NotServed:
        from datum_compute.cli.projects import check_project

        check_project(context)
        return Access(State.UNGOVERNED)
    except (errors.Forbidden, errors.Unsupported):
        return Access(State.UNGOVERNED)


def check_access(context: Context) -> None:
    """Go on only where compute is enabled; on a terminal offer to ask for it."""
    access = look(context)
    if access.state.usable:
        return
    if access.state is State.NOT_REQUESTED and context.streams.interactive:
        _offer(context)
        return
    raise refusal(context, access)


def _offer(context: Context) -> None:
    from datum_compute.cli.waiting import with_client

    project = context.target.project
    context.say(f'Compute is not enabled for project "{project}".')
    # No flag says yes to this: a request is somebody's decision, and somebody else's work.
    question = "Would you like to request access? [y/N] "
    print(question, end="", file=context.streams.stderr, flush=True)
    if context.streams.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("declined", exit_code=Exit.DECLINED, code="Declined")

    async def ask(client: ApiClient) -> Access:
        await request(client, "")
        return await settled(client, ACTIVATION_SECONDS)

    access = with_client(context, ask)
    if access.state is State.PENDING:
        raise CommandError(
            "Requested. Activation usually takes a few minutes.",
            exit_code=Exit.ACCESS_PENDING,
            code="AccessPending",
            hint=f"{REQUEST} --wait",
            retryable=True,
            calm=True,
        )
    if not access.state.usable:
        raise refusal(context, access)
    context.say("Compute is enabled.\n")


async def request(client: ApiClient, message: str) -> bool:
    """Ask for access; False where somebody has asked already, which is as good."""
    spec: dict[str, Any] = {"serviceRef": {"name": SERVICE}}
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


async def settled(client: ApiClient, seconds: float) -> Access:
    """How the request stands once it is answered, or when the time is up."""
    import asyncio

    from datum_compute.cli.rollout import plain

    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        try:
            found = plain(await client.get(SERVICE_ENTITLEMENTS, ENTITLEMENT))
            access = access_of(found)
        except errors.NotFound:
            return Access(State.NOT_REQUESTED)
        answered = access.state is not State.PENDING and (found.get("status") or {}) != {}
        if answered or loop.time() + POLL_SECONDS > deadline:
            return access
        await asyncio.sleep(POLL_SECONDS)


def refusal(context: Context, access: Access) -> CommandError:
    """Why a command cannot run, each state in its own words."""
    project, state = context.target.project, access.state
    said = f": {access.said}" if access.said else ""
    if state is State.PENDING:
        since = age(access.requested, context.env.now())
        return CommandError(
            f"Access to compute was requested {since} ago and is being activated. "
            "Try again in a moment, or wait for it.",
            exit_code=Exit.ACCESS_PENDING,
            code="AccessPending",
            hint=f"{REQUEST} --wait",
            retryable=True,
            calm=True,
        )
    texts = {
        State.NOT_REQUESTED: f'compute is not enabled for project "{project}"',
        State.DENIED: f'access to compute was denied for project "{project}"{said}',
        State.REVOKED: f'access to compute was revoked for project "{project}"{said}',
        State.SUSPENDED: f'project "{project}" is suspended, and with it its access to compute',
        State.NOT_OFFERED: f'compute is not offered to project "{project}" on this platform',
    }
    codes = {
        State.NOT_REQUESTED: "AccessNotRequested",
        State.NOT_OFFERED: "ServiceUnavailable",
        State.DENIED: "AccessDenied",
    }
    return CommandError(
        texts[state],
        exit_code=EXITS[state],
        code=codes.get(state, "AccessRevoked"),
        hint=REQUEST if state is State.NOT_REQUESTED else "",
    )
