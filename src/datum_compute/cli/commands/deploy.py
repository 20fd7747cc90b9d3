"""``deploy``: create or update a workload, say what changes, and wait until it runs."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.cli import manifest, words
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, usage
from datum_compute.cli.manifest import Flags, Workload
from datum_compute.cli.output import add_output_flags, elapsed
from datum_compute.cli.plan import Change, changes, merge_diff
from datum_compute.cli.rollout import instances_table, plain, wait_rolled_out
from datum_compute.cli.target import NAMESPACE
from datum_compute.cli.waiting import Detach, add_write_flags, with_client
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge

CONFLICT_RETRIES = 5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  datumctl-compute deploy hello --image=registry.example/acme/hello:1 --city=DFW,LHR\n"
        "  datumctl-compute deploy hello --image=registry.example/acme/hello:2 --env=LOG=debug\n"
        "  datumctl-compute deploy -f samples/hello.yaml"
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the workload")
    parser.add_argument("-f", "--file", metavar="FILE", help="YAML or JSON; - reads stdin")
    parser.add_argument("--image", help="container image")
    parser.add_argument(
        "--city", action="append", metavar="CITY", help="city code; repeat it or use commas"
    )
    parser.add_argument("--min", type=int, dest="minimum", metavar="N", help="instances per city")
    parser.add_argument("--instance-type", metavar="TYPE", help="default: d1-standard-2")
    parser.add_argument("--port", action="append", metavar="[NAME=]N", help="repeatable")
    parser.add_argument("--env", action="append", metavar="K=V|K-", help="repeatable; K- removes")
    parser.add_argument("--command", action="append", metavar="WORD", dest="container_command")
    parser.add_argument("--arg", action="append", metavar="WORD", dest="container_args")
    parser.add_argument("--network", help="default: default")
    parser.add_argument("--dry-run", action="store_true", help="show the plan, write nothing")
    add_write_flags(parser)
    add_output_flags(parser)


def run(context: Context) -> int:
    flags = _flags(context.args)
    if context.args.file:
        if context.args.name or flags.given:
            given = ", ".join((["NAME"] if context.args.name else []) + flags.given)
            raise usage(f"-f describes the whole workload, so it does not go with {given}")
        wanted = manifest.load(context.args.file, context.streams.stdin)
        return max(_deploy(context, w["metadata"]["name"], lambda _, w=w: w) for w in wanted)
    if not context.args.name:
        raise usage("name the workload, or give a file", "datumctl-compute deploy -f FILE")
    name = context.args.name
    return _deploy(
        context,
        name,
        lambda live: (
            manifest.new_workload(name, flags)
            if live is None
            else manifest.changed_workload(live, flags)
        ),
    )


def _flags(args: argparse.Namespace) -> Flags:
    cities = [c.strip().upper() for entry in args.city or [] for c in entry.split(",") if c.strip()]
    if args.minimum is not None and not 1 <= args.minimum <= 1000:
        raise usage(f"--min {args.minimum}: expected a number from 1 to 1000", "--min 1")
    return Flags(
        image=args.image,
        cities=tuple(dict.fromkeys(cities)) or None,
        minimum=args.minimum,
        instance_type=args.instance_type,
        ports=tuple(args.port or ()),
        env=tuple(args.env or ()),
        command=tuple(args.container_command or ()),
        args=tuple(args.container_args or ()),
        network=args.network,
    )


def _deploy(context: Context, name: str, describe: Any) -> int:
    detach = Detach(context, name)

    async def work(client: ApiClient) -> int:
        live = await _write(context, client, name, describe, detach)
        if live is None or context.args.dry_run:
            return 0
        if not context.args.wait:
            context.say(f"Written. See  datumctl-compute status {name}")
            return 0
        await _follow(context, client, name)
        return 0

    try:
        return with_client(context, work)
    except KeyboardInterrupt:
        if not detach.written:
            raise
        detach.say()
        return 0


async def _write(
    context: Context, client: ApiClient, name: str, describe: Any, detach: Detach
) -> Workload | None:
    """Create or patch the workload; None when there was nothing to change."""
    for _ in range(CONFLICT_RETRIES):
        live = await _live(client, name)
        wanted: Workload = describe(live)
        await _preflight(context, client, wanted)
        try:
            if live is None:
                return await _create(context, client, name, wanted, detach)
            return await _update(context, client, live, wanted, detach)
        except (errors.Conflict, errors.AlreadyExists):
            continue  # somebody was faster: look again and say anew what changes
    raise CommandError(
        f'deploying "{name}": others keep changing it',
        exit_code=Exit.CONFLICT,
        code="Conflict",
        hint="run the command again",
        retryable=True,
    )


async def _live(client: ApiClient, name: str) -> Workload | None:
    try:
        return plain(await client.get(compute.WORKLOADS, name, NAMESPACE))
    except errors.NotFound:
        return None


async def _preflight(context: Context, client: ApiClient, wanted: Workload) -> None:
    """Refuse what cannot work before anything is written."""
    page = await client.list(networking.LOCATION_BINDINGS)
    served = {_city(plain(binding)) for binding in page.items} - {""}
    asked = [c for p in wanted["spec"].get("placements") or [] for c in p.get("cityCodes") or []]
    unknown = [city for city in asked if city not in served]
    if unknown:
        raise CommandError(
            f"{_names(unknown)} {'is' if len(unknown) == 1 else 'are'} not served in project "
            f"{context.target.project}; choose from {', '.join(sorted(served)) or 'none'}",
            exit_code=Exit.BLOCKED,
            code="NoMatchingLocation",
        )
    for interface in wanted["spec"]["template"]["spec"].get("networkInterfaces") or []:
        network = (interface.get("network") or {}).get("name", "")
        try:
            await client.get(networking.NETWORKS, network, NAMESPACE)
        except errors.NotFound:
            raise CommandError(
                f'network "{network}" does not exist in project {context.target.project}',
                exit_code=Exit.NOT_FOUND,
                code="NetworkNotFound",
            ) from None


def _city(binding: dict[str, Any]) -> str:
    if not words.is_true(binding, "Available"):
        return ""
    return str((binding["spec"].get("topology") or {}).get("topology.datum.net/city-code", ""))


def _names(values: Sequence[str]) -> str:
    return ", ".join(f'"{value}"' for value in values)


async def _create(
    context: Context, client: ApiClient, name: str, wanted: Workload, detach: Detach
) -> Workload:
    planned = plain(await client.create(compute.WORKLOADS, wanted, NAMESPACE, dry_run=True))
    context.say(
        f'Workload "{name}" does not exist in project {context.target.project}. '
        "This will create it:\n"
    )
    _say_plan(context, _summary(planned))
    if context.args.dry_run:
        return planned
    created = await client.create(compute.WORKLOADS, wanted, NAMESPACE)
    detach.written = True
    return plain(created)


async def _update(
    context: Context, client: ApiClient, live: Workload, wanted: Workload, detach: Detach
) -> Workload | None:
    name = live["metadata"]["name"]
    patch = merge_diff(live["spec"], wanted["spec"])
    condition = {"resourceVersion": live["metadata"]["resourceVersion"]}
    body = merge({"metadata": condition, "spec": patch})
    planned = plain(await client.patch(compute.WORKLOADS, name, body, NAMESPACE, dry_run=True))
    found = changes(live["spec"], planned["spec"])
    if not found:
        context.say(f'Workload "{name}" is unchanged: everything is already so.')
        return None if context.args.dry_run else live
    context.say(f'Changes to workload "{name}":\n')
    _say_plan(context, found)
    if context.args.dry_run:
        return planned
    updated = plain(await client.patch(compute.WORKLOADS, name, body, NAMESPACE))
    detach.written = True
    return updated


def _summary(workload: Workload) -> list[tuple[str, str]]:
    spec = workload["spec"]
    lines = [
        ("image", words.image(workload)),
        ("instance type", words.instance_type(spec["template"]["spec"])),
    ]
    for placement in spec["placements"]:
        count = placement["scaleSettings"]["minReplicas"]
        noun = "instance" if count == 1 else "instances"
        where = ", ".join(placement["cityCodes"])
        lines.append((f"cities ({placement['name']})", f"{where} — {count} {noun} each"))
    return lines


def _say_plan(context: Context, lines: Sequence[Change | tuple[str, str]]) -> None:
    pairs = [(c.field, str(c)) if isinstance(c, Change) else c for c in lines]
    width = max((len(field) for field, _ in pairs), default=0)
    for field, text in pairs:
        context.say(f"  {field.ljust(width)}   {text}")
    context.say()


async def _follow(context: Context, client: ApiClient, name: str) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    await wait_rolled_out(context, client, name, timeout=context.args.timeout)
    context.say(f"\nRollout complete in {elapsed(loop.time() - started)}.\n")
    workload = await client.get(compute.WORKLOADS, name, NAMESPACE)
    page = await client.list(
        compute.INSTANCES,
        NAMESPACE,
        label_selector=f"{compute.LABEL_WORKLOAD_NAME}={workload.name}",
    )
    instances = [plain(item) for item in page.items]
    if context.args.output in ("table", "wide"):
        context.show(instances_table(instances))
    elif context.args.output == "name":
        context.show(f"workload/{name}")
    else:
        _show_object(context, plain(workload))


def _show_object(context: Context, value: dict[str, Any]) -> None:
    if context.args.output == "json":
        context.show(json.dumps(value, indent=2))
        return
    import yaml

    context.show(yaml.safe_dump(value, sort_keys=False).rstrip())
