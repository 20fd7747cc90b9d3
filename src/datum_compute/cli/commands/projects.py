"""``projects``: the projects of the platform, or a new one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from datum_compute.cli.arguments import add_action, add_confirmation_flag, add_wait_flags
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, usage
from datum_compute.cli.explain import states
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.names import is_project
from datum_compute.cli.render.output import add_output_flags, age, count, show, table
from datum_compute.cli.render.watch import Screen, present, table_lines
from datum_compute.cli.tables import PROJECTS
from datum_compute.client import errors

if TYPE_CHECKING:
    from datum_compute.client.client import ApiClient

HEADER = ("NAME", "STATUS", "AGE")
POLL_SECONDS = 0.25
QUOTA_SECONDS = 10.0
"""How long the first quota is waited for. A guess: a policy grants it within a second or two, and
where no policy does it never comes by itself."""


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = add_action(actions, "list", "List the projects", ("projects", "projects -o name"))
    creating = add_action(
        actions,
        "create",
        "Create a project and wait until it can be used",
        ("projects create shop", "projects create lab --no-wait"),
    )
    creating.add_argument("name", metavar="NAME", help="name of the project")
    add_confirmation_flag(creating)
    add_wait_flags(creating)
    for each in (listing, creating):
        add_output_flags(each, "`name`, `status`, `age`")


def run(context: Context) -> int:
    if context.args.action == "create":
        return _create(context)
    present(context, lambda: _read_screen(context))
    return 0


def _read_screen(context: Context) -> Screen:
    root = context.target.root()
    if root is None:
        raise _no_projects()
    views = [_view(context, each) for each in root.list(PROJECTS)]
    views.sort(key=lambda each: str(each["name"]))
    names = [f"project/{each['name']}" for each in views]
    rows = [(each["name"], each["status"], each["age"]) for each in views]
    text = table(HEADER, rows, headers=not context.args.no_headers, width=context.width())
    return Screen(views, names, table_lines(text, (), ()), f"\n{count(len(views), 'project')}")


def _no_projects() -> CommandError:
    return CommandError(
        "this server has no projects",
        command("context", "show"),
        exit_code=Exit.UNAVAILABLE,
        code="NoProjects",
    )


def _view(context: Context, project: dict[str, Any]) -> dict[str, Any]:
    metadata = project["metadata"]
    ready = "Ready" if states.is_true(project, "Ready") else "Pending"
    return {
        "name": metadata["name"],
        "status": "Deleting" if metadata.get("deletionTimestamp") else ready,
        "age": age(metadata["creationTimestamp"], context.env.now()),
        "object": project,
    }


def _create(context: Context) -> int:
    name = context.args.name
    if not is_project(name):
        raise usage(f'NAME "{name}": expected at most 30 lower-case letters, digits and -')
    runner = context.reach.runner()
    try:
        return runner.run(_create_and_wait(context, name))
    finally:
        runner.close()


async def _create_and_wait(context: Context, name: str) -> int:
    import asyncio

    from datum_compute.cli.session import to_dict

    root_client = context.target.root_client()
    if root_client is None:
        raise _no_projects()
    has_quota = True
    try:
        project = to_dict(await root_client.create(PROJECTS, await _body(context, root_client)))
        if context.args.wait:
            deadline = asyncio.get_running_loop().time() + context.args.timeout
            project = await _wait_ready(root_client, name, deadline)
            has_quota = await _wait_quota(context, name, deadline)
    except errors.AlreadyExists:
        raise CommandError(
            f'project "{name}" already exists',
            command("workloads", "--project", name),
            exit_code=Exit.CONFLICT,
            code="Conflict",
        ) from None
    finally:
        await root_client.close()
    context.say(f'Project "{name}" was created.')
    if not has_quota:
        context.say("It has no quota for compute yet: the platform may grant some later.")
    context.suggest(
        command("cities", "--project", name),
        command("access", "--project", name),
        None if has_quota else command("quota", "--project", name),
    )
    if context.args.output not in ("table", "wide"):
        show(context, _view(context, project), as_table=str, names=[f"project/{name}"])
    return 0


async def _body(context: Context, root_client: ApiClient) -> dict[str, Any]:
    """The new project, with the owner of the current one."""
    from datum_compute.assembly.local.bootstrap import PREPARED
    from datum_compute.cli.session import to_dict

    owner = {"kind": "Organization", "name": "local"}
    try:
        current = to_dict(await root_client.get(PROJECTS, context.target.project))
        owner = current["spec"].get("ownerRef") or owner
    except errors.NotFound:
        pass
    return {
        "apiVersion": PROJECTS.api_version,
        "kind": PROJECTS.kind,
        "metadata": {"name": context.args.name, "annotations": {PREPARED: "true"}},
        "spec": {"ownerRef": owner},
    }


async def _wait_ready(root_client: ApiClient, name: str, deadline: float) -> dict[str, Any]:
    """The project once its plane is ready."""
    import asyncio

    from datum_compute.cli.session import to_dict

    loop = asyncio.get_running_loop()
    while True:
        project = to_dict(await root_client.get(PROJECTS, name))
        if states.is_true(project, "Ready"):
            return project
        if loop.time() + POLL_SECONDS > deadline:
            raise CommandError(
                f'project "{name}" is not ready yet',
                command("projects"),
                exit_code=Exit.TIMED_OUT,
                code="TimedOut",
                retryable=True,
            )
        await asyncio.sleep(POLL_SECONDS)


async def _wait_quota(context: Context, name: str, deadline: float) -> bool:
    """Whether the project has quota within a short time. Nothing fails without it: whether a
    project gets any, and when, is up to the platform."""
    import asyncio
    from argparse import Namespace

    from datum_compute.cli.headroom import headroom

    loop = asyncio.get_running_loop()
    deadline = min(deadline, loop.time() + QUOTA_SECONDS)
    args = Namespace(**{**vars(context.args), "project": name})
    project_client = context.reach.find(context.env, args).client()
    try:
        while not await headroom(project_client):
            if loop.time() + POLL_SECONDS > deadline:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True
    finally:
        await project_client.close()
