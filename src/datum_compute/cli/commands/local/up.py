"""Starts a local platform, or joins one that is running."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from datum_compute.api.planes import CELL, PLANE_TYPES
from datum_compute.assembly.local.state import (
    DEFAULT_GRANT,
    AlreadyRunning,
    LocalSettings,
    RunningPlatform,
    StateDirectory,
    StateLost,
)
from datum_compute.cli.commands.local.command import RUNTIMES
from datum_compute.cli.commands.local.control import store_kubeconfig
from datum_compute.cli.commands.local.paths import abbreviate_home
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, usage
from datum_compute.cli.explain.suggestions import Remark, Suggestion, command
from datum_compute.cli.names import is_project
from datum_compute.cli.targets import stored_contexts
from datum_compute.env import Environment
from datum_compute.providers import registry
from datum_compute.providers.probe import Sample
from datum_compute.providers.registry import ProviderRecord

RESERVED = tuple(
    each.name.upper() for each in PLANE_TYPES if each.path == CELL.path.format(each.name)
)
"""No codes of cities: another plane is served where the cell of that name would be."""
SIMULATED = "simulated"
SAMPLE = "hello"
SAMPLE_IMAGE = "docker.io/library/nginx:1.27"
_CITY = re.compile(r"[A-Z][A-Z0-9]{1,15}")


class SampleImage:
    """The image of the sample, which is looked for once: where no registry answers that takes
    seconds."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._found: dict[str, Sample | None] = {}

    async def find(self, record: ProviderRecord) -> Sample | None:
        if record.sample is None:
            return None
        if record.name not in self._found:
            self._found[record.name] = await record.sample(self._env)
        return self._found[record.name]


def up(context: Context, state: StateDirectory) -> int:
    if context.args.sample and not context.args.detach:
        raise usage(
            "--sample needs --detach: it is deployed once the platform runs in the background"
        )
    stored = state.settings()
    sample = SampleImage(context.env)
    wanted = _wanted_settings(context, stored, sample)
    if context.args.ready_fd is not None:
        return _start(context, state, wanted)
    if not state.is_held():
        state.create()
        _print_plan(context, state, wanted)
        _warn_of_left_out(context, state, stored, wanted)
        try:
            _start(context, state, wanted)
        except AlreadyRunning:
            _join(context, state, sample)  # another `up` was faster
    else:
        _join(context, state, sample)
    _add_sample(context, wanted, sample)
    return 0


def _add_sample(context: Context, settings: LocalSettings, image: SampleImage) -> None:
    """A web server in every city, deployed by the command that a person would type."""
    if not context.args.sample:
        return
    import asyncio

    sample = asyncio.run(image.find(registry.find(settings.runtime)))
    if sample is not None and sample.text:
        context.say(f"\n{sample.text}")
    context.say()
    reference = sample.image if sample is not None else SAMPLE_IMAGE
    target = ["--project", settings.project]
    if context.args.data_dir:
        target += ["--data-dir", context.args.data_dir]
    words = ["deploy", SAMPLE, f"--image={reference}", f"--city={','.join(settings.cities)}"]
    context.following += [
        [*words, "--http-port=80", "--yes", "--window=0s", *target],
        ["status", SAMPLE, *target],
    ]


def _join(context: Context, state: StateDirectory, sample: SampleImage) -> int:
    """Use the platform that is running, or that another process is starting."""
    from datum_compute.assembly.local import process

    running = process.wait_until_running(state)
    if running is None:
        raise CommandError(
            f"another process uses {state.path} and did not become ready",
            command("local", "down"),
            code="StartFailed",
        )
    stored = state.settings()
    wanted = stored and _wanted_settings(context, stored, sample)
    if stored is not None and wanted is not None and wanted != stored:
        raise usage(
            f"a local platform is running with other settings: {_differences(stored, wanted)}",
            command("local", "down"),
        )
    context.say(f"The local platform is already running at {running.address}")
    return 0


def _differences(stored: LocalSettings, wanted: LocalSettings) -> str:
    """``--port is 7443, asked for 7000``: each flag with what was found and what was asked for."""
    found, asked = _flag_values(stored), _flag_values(wanted)
    return "; ".join(
        f"{flag} is {found[flag]}, asked for {value}"
        for flag, value in asked.items()
        if value != found[flag]
    )


def _flag_values(settings: LocalSettings) -> dict[str, str]:
    """Of the flags that a later ``up`` may give; of ``--grant`` each resource by itself."""
    return {
        "--cities": ",".join(settings.cities),
        "--project": settings.project,
        "--port": str(settings.port),
        "--router-port": str(settings.router_port),
        **{f"--grant {name}": str(amount) for name, amount in settings.grant.items()},
    }


def _start(context: Context, state: StateDirectory, wanted: LocalSettings) -> int:
    from datum_compute.assembly.local import process

    started = context.env.now()

    def ready(found: RunningPlatform | None) -> None:
        if found is not None:
            store_kubeconfig(state, found)
        passed = (context.env.now() - started).total_seconds()
        _print_ready(context, state, found, wanted, passed)

    try:
        if context.args.detach:
            process.start_detached(context.env, state, wanted)
            ready(state.running())
        else:
            from datum_compute.cli.console.server import serve_console

            process.run_in_foreground(
                context.env,
                state,
                wanted,
                ready_fd=context.args.ready_fd,
                on_ready=ready,
                console=serve_console,
            )
            context.say("Stopped.")
    except StateLost as error:
        raise CommandError(
            f"the local platform stopped, because {error}",
            command("local", "up", "--detach"),
            code="StateLost",
        ) from error
    except process.StartFailed as error:
        outcome, message = error.report.outcome, f"the platform did not start: {error}"
        if outcome is not process.StartOutcome.DAMAGED:
            message += "; its state is kept, and the next start goes on from there"
        remedies: dict[process.StartOutcome, tuple[Suggestion, ...]] = {
            process.StartOutcome.DAMAGED: (command("local", "check"),),
            process.StartOutcome.PORT_TAKEN: (command("local", "up", "--port", "N"),),
            process.StartOutcome.ROUTER_PORT_TAKEN: (command("local", "up", "--router-port", "N"),),
        }
        unknown = Remark(f"see {state.log}"), command("local", "reset")
        raise CommandError(message, *remedies.get(outcome, unknown), code="StartFailed") from error
    return 0


def _wanted_settings(
    context: Context, stored: LocalSettings | None, sample: SampleImage
) -> LocalSettings:
    args, changed = context.args, stored or LocalSettings()
    if args.cities is not None:
        changed = replace(changed, cities=_cities(args.cities))
    if args.project is not None:
        if not is_project(args.project):
            raise usage(f'--project "{args.project}": expected lower-case letters, digits and -')
        changed = replace(changed, project=args.project)
    for flag, port in (("port", args.port), ("router_port", args.router_port)):
        if port is not None and port != 0:
            if not 1 <= port <= 65535:
                name = flag.replace("_", "-")
                raise usage(f"--{name} {port}: expected a number from 1 to 65535")
            changed = replace(changed, **{flag: port})
    if args.grant is not None:
        changed = replace(changed, grant={**DEFAULT_GRANT, **_grant(args.grant)})
    # Last, because it asks the engines.
    return replace(changed, runtime=_runtime(context, stored, sample))


def _runtime(context: Context, stored: LocalSettings | None, sample: SampleImage) -> str:
    """The runtime of the first start stays: in another one its Instances would be left behind."""
    wanted = context.args.runtime or context.env.variable("DATUM_RUNTIME") or registry.AUTO
    if wanted not in RUNTIMES:
        raise usage(f'DATUM_RUNTIME "{wanted}": expected one of {", ".join(RUNTIMES)}')
    if stored is not None:
        if context.args.runtime not in (None, registry.AUTO, stored.runtime):
            raise usage(
                f"--runtime {wanted}: this platform was started with {stored.runtime}",
                command("local", "reset"),
            )
        return stored.runtime
    if context.args.ready_fd is not None:
        return str(wanted)  # the process that started this one has looked
    return _find_runtime(context, wanted, sample)


def _find_runtime(context: Context, wanted: str, sample: SampleImage) -> str:
    import asyncio

    if wanted == registry.AUTO:
        return asyncio.run(_choose(context, sample))
    probe = registry.find(wanted).probe
    found = asyncio.run(probe(context.env)) if probe is not None else None
    if found is not None and not found.usable:
        raise CommandError(
            f"--runtime {wanted}: {found.text}",
            command("local", "up", "--runtime", "simulated"),
            code="RuntimeUnusable",
        )
    return wanted


async def _choose(context: Context, sample: SampleImage) -> str:
    """What ``auto`` means on this machine; says why an engine that is there is not used."""
    record, probes = await registry.choose("local", context.env)
    for each in probes:
        if not each.usable:
            context.say(f"Not used: {each.text}")
    if record.sample is not None and context.args.sample:
        context.say("Looking for the image of the sample ...")
        if await sample.find(record) is None:
            context.say(f"Not used: {record.name}, which cannot pull {SAMPLE_IMAGE}")
            return SIMULATED
    if record.probe is None:
        context.say(
            "Instances are simulated: neither podman nor docker can start a container here."
        )
    return record.name


def _cities(text: str) -> tuple[str, ...]:
    cities = tuple(dict.fromkeys(c.strip().upper() for c in text.split(",") if c.strip()))
    wrong = [city for city in cities if not _CITY.fullmatch(city) or city in RESERVED]
    if wrong or not cities:
        reserved = ", ".join(RESERVED)
        raise usage(f'--cities "{text}": expected codes such as DFW,LHR (reserved: {reserved})')
    return cities


def _grant(text: str) -> dict[str, int]:
    grant: dict[str, int] = {}
    for entry in text.split(","):
        name, _, amount = entry.strip().partition("=")
        if name not in DEFAULT_GRANT or not _is_amount(amount):
            known = ", ".join(f"{key}=N" for key in DEFAULT_GRANT)
            raise usage(f'--grant "{entry}": expected any of {known}')
        grant[name] = int(amount)
    return grant


def _is_amount(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) < 2**63


def _typed(context: Context, path: Path) -> str:
    """A path as a user would type it in a shell."""
    import shlex

    return shlex.quote(str(path)) if " " in str(path) else abbreviate_home(path, context.env)


def _print_plan(context: Context, state: StateDirectory, settings: LocalSettings) -> None:
    context.say("Starting the local platform")
    context.say(f"  state      {abbreviate_home(state.path, context.env)}")
    context.say(f"  cities     {'  '.join(settings.cities)}   one cell each")
    provider = registry.find(settings.runtime)
    context.say(f"  runtime    {provider.name}   {provider.summary}")
    quota = settings.grant["instances"]
    context.say(f"  project    {settings.project}   quota: {quota} instances")


def _warn_of_left_out(
    context: Context, state: StateDirectory, stored: LocalSettings | None, wanted: LocalSettings
) -> None:
    """Where a city that workloads run in is not served any more."""
    left_out = [each for each in stored.cities if each not in wanted.cities] if stored else []
    if not left_out:
        return
    from datum_compute.cli.commands.local.storage import workloads_by_city

    users = workloads_by_city(context, state)
    used = [city for city in left_out if city in users]
    for city in used:
        context.say(f"Warning: {city} is left out, but {', '.join(users[city])} runs there.")
    if used:
        cities = ",".join((*wanted.cities, *used))
        again = context.command("local", "up", "--detach", "--cities", cities)
        context.say(f"To serve it again:  {context.command('local', 'down')} && {again}")


def _print_ready(
    context: Context,
    state: StateDirectory,
    running: RunningPlatform | None,
    settings: LocalSettings,
    seconds: float,
) -> None:
    where = f" at {running.address}" if running else ""
    context.say(f"Ready in {seconds:.1f}s{where}\n")
    cities = ",".join(settings.cities[:2])
    # Not hello, which is the sample. Any image will do where instances are simulated.
    simulated = settings.runtime == SIMULATED
    image = "registry.example/acme/web:1" if simulated else SAMPLE_IMAGE
    steps = [
        context.command("deploy", "web", f"--image={image}", f"--city={cities}"),
        context.command("status", "web"),
        # A file, not a pipe: some builds of kubectl read it twice.
        f"kubectl --kubeconfig {_typed(context, state.kubeconfig)} get instances",
    ]
    if not context.args.sample:
        context.say("Try:  " + "\n      ".join(steps))
    elsewhere = _other_target(context, state)
    if elsewhere:
        use = context.command("context", "add", "local", "--data-dir", str(state.path))
        context.say(f"\nCommands use {elsewhere}, not this platform, unless --data-dir names it or")
        context.say(
            f"it is the current context:  {use} && {context.command('context', 'use', 'local')}"
        )


def _other_target(context: Context, state: StateDirectory) -> str:
    """What selects another platform for commands that name none; empty where nothing does."""
    if context.env.variable("DATUM_API_HOST"):
        return "DATUM_API_HOST"
    try:
        current = stored_contexts.current(context.env)
    except CommandError:
        return ""  # the next command says what is wrong with the file
    if current is not None:
        own = current.data_dir and Path(current.data_dir).resolve() == state.path.resolve()
        return "" if own else f"context {current.name}"
    return "KUBECONFIG" if stored_contexts.kubeconfig_files(context.env) else ""
