"""The engine as the host of a platform: whether it can run containers, and what it holds.

An engine that answers may still be unable to start a container, so the choice of an engine is
made after a trial: an image of one program that ends at once, on a network with a published
port, made in memory and removed again.
"""

from __future__ import annotations

import asyncio
import platform
import shutil
import struct
from ipaddress import IPv4Network
from pathlib import Path

from datum_compute.env import Environment
from datum_compute.providers.container import networks, sockets, spec
from datum_compute.providers.container.engine import (
    ContainerEngine,
    EngineRefused,
    EngineUnreachable,
)
from datum_compute.providers.container.failures import one_line
from datum_compute.providers.container.images.archive import build_archive
from datum_compute.providers.probe import Probe, Sample
from datum_compute.providers.sandbox import CAPABILITIES, GRACE_SECONDS

TRIAL = "datum-compute-trial"
TRIAL_IMAGE = f"localhost/{TRIAL}:1"
TRIAL_SECONDS = 30.0
TRIAL_ADDRESS = "127.127.255.254"
"""At the end of the range that Instances take their addresses from."""

PUBLIC_IMAGE = "docker.io/library/nginx:1.27"
BUSYBOX_IMAGE = "localhost/datum-compute-sample:1"
BUSYBOX_PROGRAMS = ("sh", "httpd", "hostname", "echo", "mkdir", "cat", "ls", "sleep", "wget")
PULL_SECONDS = 180.0
"""How long the sample's image may take: seventy megabytes over a slow line. A guess."""

_EXITS = {
    # exit(0) for Linux, in the machine's own code.
    "x86_64": (62, bytes.fromhex("b83c00000031ff0f05")),
    "aarch64": (183, bytes.fromhex("a80b80d2000080d2010000d4")),
}


async def probe(env: Environment, engine: str) -> Probe:
    """Whether this engine can run containers here, in words."""
    socket = await sockets.find_socket(env, engine)
    if socket is None:
        return Probe(False, f"{engine} does not answer")
    try:
        async with asyncio.timeout(TRIAL_SECONDS), ContainerEngine(socket) as opened:
            version = str((await opened.version()).get("Version") or "")
            await _try_container(opened, engine, env.new_uid()[:8])
    except (EngineUnreachable, EngineRefused) as error:
        return Probe(False, f"{engine} cannot start a container: {one_line(str(error))}")
    except TimeoutError:
        return Probe(False, f"{engine} did not start a container in {TRIAL_SECONDS:g}s")
    return Probe(True, f"containers of {engine} {version}, on {socket}")


async def _try_container(engine: ContainerEngine, name: str, suffix: str) -> None:
    program = exit_program(platform.machine())
    if program is None:
        return  # an unknown architecture: the engine's answer has to do
    trial = f"{TRIAL}-{suffix}"
    await engine.load(build_archive(TRIAL_IMAGE, {"exit": program}, {}, ["/exit"]))
    limits = sockets.limits_of_this_host(name)
    host = {
        "NetworkMode": trial,
        "CapDrop": ["ALL"],
        "CapAdd": list(CAPABILITIES),
        "SecurityOpt": ["no-new-privileges"],
        "Memory": 64 * 2**20,
        "PortBindings": {"8080/tcp": [{"HostIp": TRIAL_ADDRESS, "HostPort": "0"}]},
        **spec.ulimits(limits),
    }
    body = {"Image": TRIAL_IMAGE, "ExposedPorts": {"8080/tcp": {}}, "HostConfig": host}
    await engine.create_network({"Name": trial, "Driver": "bridge", "CheckDuplicate": True})
    try:
        await engine.create(trial, body)
        await engine.start(trial)
    finally:
        try:
            await engine.remove(trial)
        finally:
            await engine.remove_network(trial)


def exit_program(machine: str) -> bytes | None:
    """A program that ends with code 0 at once, as an ELF file of one segment."""
    if machine not in _EXITS:
        return None
    number, code = _EXITS[machine]
    base, header = 0x400000, 64 + 56
    size = header + len(code)
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    fields = (2, number, 1, base + header, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    elf = struct.pack("<HHIQQQIHHHHHH", *fields)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    return identity + elf + segment + code


def _read_routes() -> str:
    routes = Path(networks.ROUTES)
    return routes.read_text() if routes.exists() else ""


async def sample_image(env: Environment, engine: str) -> Sample | None:
    """An image that serves HTTP on port 80: the public one, or where no registry answers one made
    of this machine's busybox. None where neither can be had."""
    socket = await sockets.find_socket(env, engine)
    if socket is None:
        return None
    async with ContainerEngine(socket) as opened:
        if await opened.image(PUBLIC_IMAGE) is not None:
            return Sample(PUBLIC_IMAGE)
        try:
            async with asyncio.timeout(PULL_SECONDS):
                await opened.pull(PUBLIC_IMAGE)
                return Sample(PUBLIC_IMAGE)
        except (EngineRefused, EngineUnreachable, TimeoutError) as error:
            cause = one_line(str(error)) or f"no answer in {PULL_SECONDS:g}s"
        busybox = static_busybox(env)
        if busybox is None:
            return None
        await opened.load(build_busybox_image(busybox))
    return Sample(
        BUSYBOX_IMAGE,
        f"{PUBLIC_IMAGE} cannot be pulled ({cause}).\n"
        f"The sample is {BUSYBOX_IMAGE}, a web server made of this machine's busybox.",
    )


def static_busybox(env: Environment) -> bytes | None:
    """The program, if there is one that needs no libraries."""
    found = shutil.which("busybox", path=env.variable("PATH") or "")
    content = Path(found).read_bytes() if found else b""
    return content if content[:4] == b"\x7fELF" and not _has_interpreter(content) else None


def _has_interpreter(elf: bytes) -> bool:
    """Whether it is linked dynamically: a segment of type PT_INTERP names the loader."""
    (start,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    return any(
        struct.unpack_from("<I", elf, start + index * size)[0] == 3 for index in range(count)
    )


def build_busybox_image(busybox: bytes) -> bytes:
    """A web server on port 80 that names the Instance it runs in."""
    script = (
        'mkdir -p /www; echo "hello from $(hostname)" > /www/index.html;'
        " echo serving on port 80; trap 'exit 0' TERM; httpd -f -p 80 -h /www & wait"
    )
    links = {f"bin/{name}": "busybox" for name in BUSYBOX_PROGRAMS}
    return build_archive(BUSYBOX_IMAGE, {"bin/busybox": busybox}, links, ["/bin/sh", "-c", script])


async def occupied_ranges(env: Environment, engine: str) -> list[IPv4Network]:
    """The ranges on this machine that a new network must not overlap."""
    text = _read_routes()
    socket = await sockets.find_socket(env, engine)
    if socket is None:
        return networks.parse_routes(text)
    async with ContainerEngine(socket) as opened:
        return await networks.occupied_ranges(opened, text)


async def claim_range(
    env: Environment,
    engine: str,
    mark: str,
    cell: str,
    namespace: str,
    subnet: str,
    range_: IPv4Network,
) -> bool:
    """Take a range for a Subnet, by creating its network; whether nothing else has it. Raises
    ``EngineUnreachable`` or ``EngineRefused``."""
    socket = await sockets.find_socket(env, engine)
    if socket is None:
        raise EngineUnreachable(f"{engine} does not answer")
    async with ContainerEngine(socket) as opened:
        found = networks.EngineNetworks(lambda: opened, mark, cell)
        return await found.claim(namespace, subnet, range_)


async def end_containers(env: Environment, engine: str, mark: str, *, remove: bool) -> int:
    """Stop, or remove, the containers of a platform that does not run; how many there were.
    Raises ``EngineUnreachable``."""
    socket = await sockets.find_socket(env, engine)
    if socket is None:
        raise EngineUnreachable(f"{engine} does not answer")
    async with ContainerEngine(socket) as opened:
        found = await opened.containers(spec.platform_labels(mark))
        running = [each for each in found if str(each.get("State")) in ("running", "paused")]
        for each in running:
            if str(each.get("State")) == "paused":
                await opened.unpause(str(each["Id"]))  # podman does not stop one that is paused
        await asyncio.gather(*(opened.stop(str(each["Id"]), GRACE_SECONDS) for each in running))
        if remove:
            for identifier in spec.removal_order(found):
                await opened.remove(identifier)
            for volume in await opened.volumes(spec.platform_labels(mark)):
                await opened.remove_volume(str(volume["Name"]))
            for network in await opened.networks():
                if (network.get("Labels") or {}).get(spec.LABEL_PLATFORM) == mark:
                    await opened.remove_network(str(network["Name"]))
        return len(found if remove else running)
