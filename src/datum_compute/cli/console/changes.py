"""What a user changes from the page: commands of this program, on the loop of the platform.

A plan is the command itself with a client whose writes are dry runs, so that the server validates
it and the command says what it will do. What the user then confirms is the same command.
"""

from __future__ import annotations

import io
from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar, cast

import msgspec

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.constants import ANNOTATION_LAST_CHANGE
from datum_compute.api.meta import Object, WireObject
from datum_compute.api.scheme import Resource
from datum_compute.cli.arguments import insert_default_action
from datum_compute.cli.console.project import CopiedProject
from datum_compute.cli.context import Context, PlainReader
from datum_compute.cli.errors import CommandError, not_found, usage
from datum_compute.cli.explain.suggestions import Command, command
from datum_compute.cli.main import as_command_error, build_parser, command_module
from datum_compute.cli.names import is_name
from datum_compute.cli.render.spec_diff import diff_metadata, diff_specs
from datum_compute.cli.rollout.waves import wave_lines
from datum_compute.cli.session import Session, to_dict
from datum_compute.cli.tables import NAMESPACE, WORKLOADS
from datum_compute.cli.workload import interruption_lines, read_updated
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import Patch, Propagation
from datum_compute.decisions.instances.revisions import template_hash

T = TypeVar("T")
Json = dict[str, Any]

Verb = Literal["scale", "restart", "undo", "pause", "resume", "promote", "stop", "start"]


class Change(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What the page asks for."""

    verb: Verb
    name: str
    city: str = ""
    minimum: int = 0
    revision: int = 0
    generation: int = 0
    """Of the workload that the plan was made for; 0 asks for a plan."""

    @property
    def words(self) -> tuple[str, ...]:
        """The command line, without the program."""
        city = ("--city", self.city) if self.city else ()
        if self.verb == "scale":
            return "scale", self.name, "--min", str(self.minimum)
        if self.verb == "undo":
            return "rollout", "undo", self.name, "--to-revision", str(self.revision)
        if self.verb in ("restart", "stop", "start"):
            return self.verb, self.name, *city
        return "rollout", self.verb, self.name


class _PlanClient(ApiClient):
    """Sends every write as a dry run, and keeps the Workloads that would result."""

    def __init__(self, *args: Any, **options: Any) -> None:  # those of a client
        super().__init__(*args, **options)
        self.planned: list[Json] = []
        self.writes = 0
        self.said = io.StringIO()
        self.said_before = ""
        """What the command had said when it wrote first."""

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        if not self.writes:
            self.said_before = self.said.getvalue()
        written = await super().patch(
            resource, name, patch, namespace, subresource=subresource, dry_run=True
        )
        self.writes += 1
        if resource == compute.WORKLOADS:
            self.planned.append(to_dict(written))
        return written

    async def create(
        self, resource: Resource, body: WireObject, namespace: str = "", *, dry_run: bool = False
    ) -> Object:
        return await super().create(resource, body, namespace, dry_run=True)

    async def update(
        self, resource: Resource, body: Object | WireObject, *, subresource: str = ""
    ) -> Object:
        raise NotImplementedError("a plan has no dry run of an update")

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Propagation = "Background",
    ) -> None:
        """Nothing: what a change deletes is its own history."""


class _LoopSession(Session):
    """For a command that runs on the loop: what it would wait for is awaited by the caller."""

    def __init__(self, context: Context, client: ApiClient, reader: PlainReader) -> None:
        super().__init__(context)
        self._own = client
        self.reader = reader  # type: ignore[assignment]  # of copies, so it does not block

    def call(self, work: Callable[[ApiClient], Awaitable[T]]) -> T:
        # A command returns what its last call returns, and makes no other one.
        return cast("T", work(self._own))


async def plan(project: CopiedProject, change: Change) -> Json:
    """What the change would do. Raises CommandError where it is refused."""
    args = _parsed(change)
    live = await _live(project, change.name)
    client = project.client(_PlanClient)
    text = await _run(project, change, args, client, client.said)
    if change.verb == "undo" and client.writes:
        text = client.said_before  # it has printed its plan, and then says that it is done
    after = next(iter(client.planned), live)
    # The change itself is noted in an annotation, which says nothing new.
    annotations = after["metadata"].setdefault("annotations", {})
    annotations.pop(ANNOTATION_LAST_CHANGE, None)
    (live["metadata"].get("annotations") or {}).pop(ANNOTATION_LAST_CHANGE, None)
    lines = text.splitlines()
    fields = [*diff_metadata(live, after), *diff_specs(live["spec"], after["spec"])]
    is_new = template_hash(after["spec"]["template"]) != template_hash(live["spec"]["template"])
    if is_new and change.verb == "restart":
        updated = await read_updated(client, after, live)
        lines += interruption_lines(after, live, updated, wave_lines(after, updated))
    return {
        "command": project.context(Namespace()).invocation.render(Command(change.words)),
        "lines": [line for line in lines if line.strip()],
        "diff": [{"field": each.label, "old": each.old, "new": each.new} for each in fields],
        "writes": client.writes,
        "generation": live["metadata"]["generation"],
    }


async def carry_out(project: CopiedProject, change: Change) -> Json:
    """Make the change. Raises CommandError, and where the workload was changed since the plan."""
    args = _parsed(change)
    live = await _live(project, change.name)
    if live["metadata"]["generation"] != change.generation:
        raise CommandError(
            f'"{change.name}" was changed since this plan was made', code="Conflict", retryable=True
        )
    text = await _run(project, change, args, project.client(), io.StringIO())
    return {"lines": [line for line in text.splitlines() if line.strip()]}


async def _live(project: CopiedProject, name: str) -> Json:
    try:
        return to_dict(await project.client().get(WORKLOADS, name, NAMESPACE))
    except errors.NotFound:
        raise not_found("workload", name, project.name, command("workloads")) from None
    except errors.ClientError as error:
        raise as_command_error(error) from error


def _parsed(change: Change) -> Namespace:
    """The command line as the program parses it. Nothing asks, waits or suggests a next step: the
    page does."""
    # What a user names becomes a word of a command line, and must not be taken for a flag.
    if not is_name(change.name):
        raise usage(f'name "{change.name}": expected the name of a workload')
    if change.city and not change.city.isalnum():
        raise usage(f'city "{change.city}": expected a code such as DFW')
    words = list(change.words)
    args = build_parser(words[0]).parse_args(insert_default_action(words, words[0]))
    args.yes, args.wait, args.no_headers = True, False, True
    return args


async def _run(
    project: CopiedProject, change: Change, args: Namespace, client: ApiClient, said: io.StringIO
) -> str:
    """Run the command; what it says."""
    context = project.context(args, messages=said)
    context.session = _LoopSession(context, client, context.target.reader())
    try:
        await cast("Awaitable[int]", command_module(args.command).run(context))
    except Exception as error:
        raise as_command_error(error) from error
    return said.getvalue()
