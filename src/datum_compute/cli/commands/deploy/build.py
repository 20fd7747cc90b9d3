"""``deploy --build``: an image from a directory, by the container engine of a local platform."""

from __future__ import annotations

from pathlib import Path

from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, usage
from datum_compute.cli.explain.suggestions import AddFlag, Remark, command
from datum_compute.client.client import ApiClient


def check_flags(context: Context, *, image: str | None) -> None:
    args = context.args
    if args.build is None:
        if args.dockerfile is not None:
            raise usage("--dockerfile needs --build", AddFlag("--build", "DIR"))
        return
    given = {"-f": args.file, "--image": image, "--dry-run": args.dry_run}
    for flag, value in given.items():
        if value:
            raise usage(f"--build cannot be combined with {flag}")
    if not Path(args.build).is_dir():
        raise usage(f'--build "{args.build}": there is no such directory')
    if not args.name:
        raise usage(
            "--build needs the name of a workload", command("deploy", "hello", "--build", "DIR")
        )


def build_image(context: Context) -> str:
    """The reference of the image, which the platform runs without a registry."""
    from datum_compute.assembly.local.state import StateDirectory
    from datum_compute.providers import registry
    from datum_compute.providers.errors import BuildFailed

    context.check_access()
    directory = context.target.local_directory
    if not directory:
        raise _not_here("only a local platform on this machine can build images")
    settings = StateDirectory(Path(directory)).settings()
    runtime = settings.runtime if settings is not None else "simulated"
    build = registry.find(runtime).build_image
    if build is None:
        raise _not_here(f"this platform cannot build images: its runtime is {runtime}")
    args = context.args

    async def work(_: ApiClient) -> str:
        return await build(context.env, args.name, Path(args.build), args.dockerfile, context.say)

    context.say(f"Building {args.build} with {runtime}")
    try:
        image = context.open_session().run(work)
    except BuildFailed as error:
        raise CommandError(f"--build {args.build}: {error}", code="BuildFailed") from error
    context.say(f"Built {image}\n")
    return image


def _not_here(why: str) -> CommandError:
    return CommandError(
        f"--build: {why}",
        Remark("push the image to a registry, and give it with --image"),
        exit_code=Exit.UNAVAILABLE,
        code="NoBuilder",
    )
