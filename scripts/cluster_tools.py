#!/usr/bin/env python3
"""Build the etcd, kube-apiserver and kubectl that the cluster suite uses.

All are compiled by the local Go toolchain from their published modules, so the suite talks to
the real server without a container runtime and without downloading a prebuilt binary.
The binaries are kept in a cache directory named after their versions; once they are there this
script returns at once.

Standard library only: it runs before any virtual environment exists.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ETCD_VERSION = "v3.5.16"
KUBERNETES_VERSION = "v1.32.5"

# Raised when the way of building changes while the versions stay: old caches must not be reused.
RECIPE = 1

ETCD_MODULE = "go.etcd.io/etcd/server/v3"
KUBERNETES_MODULE = "k8s.io/kubernetes"

# A silent ten-minute compile looks like a hang; a line a minute does not.
HEARTBEAT_SECONDS = 60.0


class ToolsError(Exception):
    """The tools cannot be built; the message names what to change."""


@dataclass(frozen=True)
class Tool:
    """One binary: its name, the module that holds it, and its main package."""

    name: str
    module: str
    version: str
    package: str


ETCD = Tool("etcd", ETCD_MODULE, ETCD_VERSION, ETCD_MODULE)
KUBE_APISERVER = Tool(
    "kube-apiserver",
    KUBERNETES_MODULE,
    KUBERNETES_VERSION,
    f"{KUBERNETES_MODULE}/cmd/kube-apiserver",
)
KUBECTL = Tool(
    "kubectl",
    KUBERNETES_MODULE,
    KUBERNETES_VERSION,
    f"{KUBERNETES_MODULE}/cmd/kubectl",
)
KUBE_CONTROLLER_MANAGER = Tool(
    "kube-controller-manager",
    KUBERNETES_MODULE,
    KUBERNETES_VERSION,
    f"{KUBERNETES_MODULE}/cmd/kube-controller-manager",
)

DEFAULT_TOOLS: tuple[Tool, ...] = (ETCD, KUBE_APISERVER, KUBECTL)
EXTRA_TOOLS: Mapping[str, Tool] = {"controller-manager": KUBE_CONTROLLER_MANAGER}


@dataclass(frozen=True)
class UpstreamModule:
    """What the building module has to know of the module it builds from."""

    go: str
    godebug: Mapping[str, str]
    # Modules that upstream replaces with a directory of its own tree.
    local_replacements: Sequence[str]
    commit: str | None = field(default=None)


def report(message: str) -> None:
    print(f"cluster-tools: {message}", file=sys.stderr, flush=True)


def cache_root() -> Path:
    configured = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative values ignored.
    base = Path(configured) if os.path.isabs(configured) else Path.home() / ".cache"
    return base / "datum-compute" / "cluster-tools"


def cache_key() -> str:
    # The platform is part of the key because home directories are shared between machines.
    system, machine = platform.system().lower(), platform.machine().lower()
    return f"etcd-{ETCD_VERSION}_kubernetes-{KUBERNETES_VERSION}_{system}-{machine}_r{RECIPE}"


def tools_dir() -> Path:
    return cache_root() / cache_key()


def missing_tools(directory: Path, tools: Sequence[Tool]) -> list[Tool]:
    return [tool for tool in tools if not os.access(directory / tool.name, os.X_OK)]


def find_go() -> str:
    go = shutil.which("go")
    if go is None:
        raise ToolsError(
            "the `go` command is not on PATH; building etcd "
            f"{ETCD_VERSION} and Kubernetes {KUBERNETES_VERSION} needs Go 1.23 or newer "
            "with access to a Go module registry"
        )
    return go


def go_environment() -> dict[str, str]:
    environment = dict(os.environ)
    # The binaries run here, whatever the caller cross-compiles for.
    for name in ("GOOS", "GOARCH"):
        environment.pop(name, None)
    # A workspace above the temporary directory would take over its module.
    environment.update(CGO_ENABLED="0", GO111MODULE="on", GOWORK="off")
    return environment


def go_json(go: str, arguments: Sequence[str], cwd: Path) -> dict[str, Any]:
    """Run a go command that answers with one JSON object."""
    result = subprocess.run(
        [go, *arguments],
        cwd=cwd,
        env=go_environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    try:
        answer = json.loads(result.stdout)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ToolsError(f"`go {' '.join(arguments)}` failed with exit code {result.returncode}")
    if "Error" in answer:
        raise ToolsError(f"`go {' '.join(arguments)}` failed: {answer['Error']}")
    return answer


def read_upstream(go: str, tool: Tool, work: Path) -> UpstreamModule:
    download = go_json(go, ["mod", "download", "-json", f"{tool.module}@{tool.version}"], work)
    manifest = go_json(go, ["mod", "edit", "-json", download["GoMod"]], work)
    local = [
        replacement["Old"]["Path"]
        for replacement in manifest.get("Replace") or []
        # Only a replacement by a directory lacks a version.
        if "Version" not in replacement["New"]
    ]
    return UpstreamModule(
        go=manifest["Go"],
        godebug={entry["Key"]: entry["Value"] for entry in manifest.get("Godebug") or []},
        local_replacements=local,
        commit=(download.get("Origin") or {}).get("Hash"),
    )


def staging_version(kubernetes_version: str) -> str:
    """Kubernetes v1.X.Y publishes its staging modules as v0.X.Y."""
    major, rest = kubernetes_version.split(".", 1)
    if major != "v1":
        raise ToolsError(f"no staging version is known for Kubernetes {kubernetes_version}")
    return f"v0.{rest}"


def go_mod(tool: Tool, upstream: UpstreamModule) -> str:
    """The building module: it requires the tool's module and nothing else.

    `go install module@version` refuses modules with replace directives, and those of a required
    module have no effect, so the building module has to state its own.
    """
    lines = ["module datum-compute/cluster-tools", "", f"go {upstream.go}", ""]
    # Runtime defaults come from the main module; repeating them gives upstream's behaviour.
    lines += [f"godebug {key}={value}" for key, value in upstream.godebug.items()]
    lines += ["", f"require {tool.module} {tool.version}", ""]
    if tool.module == KUBERNETES_MODULE:
        # Its go.mod requires the staging modules at v0.0.0, which was never published.
        # etcd needs none of this: it requires its siblings at their published versions.
        version = staging_version(tool.version)
        lines += [f"replace {path} => {path} {version}" for path in upstream.local_replacements]
    return "\n".join(lines) + "\n"


def linker_flags(tool: Tool, upstream: UpstreamModule) -> str:
    flags = ["-s", "-w"]
    if tool.module == KUBERNETES_MODULE:
        # Unstamped, /version answers v0.0.0-master, and clients that branch on the server's
        # version would be tested on the wrong branch.
        major, minor, _ = tool.version.removeprefix("v").split(".", 2)
        values = {
            "gitVersion": tool.version,
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
        }
        if upstream.commit:
            values["gitCommit"] = upstream.commit
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            flags += [f"-X {package}.{name}={value}" for name, value in values.items()]
    return " ".join(flags)


def compile_tool(go: str, tool: Tool, upstream: UpstreamModule, module: Path, output: Path) -> None:
    command = [
        go,
        "build",
        # The module is generated without a go.sum; this lets go fill it, each entry checked
        # against the checksum database.
        "-mod=mod",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        linker_flags(tool, upstream),
        "-o",
        str(output),
        tool.package,
    ]
    started = time.monotonic()
    # go's own lines (downloads, compile errors) go to stderr: stdout is for the directory alone.
    with subprocess.Popen(
        command, cwd=module, env=go_environment(), stdout=sys.stderr.fileno()
    ) as process:
        try:
            while True:
                try:
                    code = process.wait(timeout=HEARTBEAT_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    elapsed = time.monotonic() - started
                    report(f"still building {tool.name} ({elapsed:.0f} s)")
        except BaseException:
            process.terminate()
            raise
    if code != 0:
        raise ToolsError(f"building {tool.name} {tool.version} failed with exit code {code}")


def build(go: str, tool: Tool, work: Path, directory: Path) -> None:
    started = time.monotonic()
    report(f"building {tool.name} {tool.version}")
    module = work / tool.name
    module.mkdir()
    upstream = read_upstream(go, tool, module)
    (module / "go.mod").write_text(go_mod(tool, upstream), encoding="utf-8")
    output = work / f"{tool.name}.bin"
    compile_tool(go, tool, upstream, module, output)
    directory.mkdir(parents=True, exist_ok=True)
    size = output.stat().st_size / 2**20
    # The work directory lies in the cache root, hence on the same file system: a reader sees
    # either no binary or the whole one.
    os.replace(output, directory / tool.name)
    report(
        f"built {tool.name} {tool.version} in {time.monotonic() - started:.0f} s ({size:.0f} MiB)"
    )


@contextlib.contextmanager
def exclusive(root: Path) -> Iterator[None]:
    """Let one build run at a time; a second caller waits and then finds the binaries."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another build to finish")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ensure_tools(tools: Sequence[Tool] = DEFAULT_TOOLS) -> Path:
    """Return the directory that holds the tools, building those that are absent."""
    directory = tools_dir()
    if not missing_tools(directory, tools):
        return directory
    go = find_go()
    root = cache_root()
    with exclusive(root), tempfile.TemporaryDirectory(prefix=".build-", dir=root) as work:
        for tool in missing_tools(directory, tools):
            build(go, tool, Path(work), directory)
    return directory


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Build the etcd, kube-apiserver and kubectl of the cluster suite, "
        "and print the directory that holds them."
    )
    parser.add_argument(
        "--print-dir",
        action="store_true",
        help="print the directory without building anything",
    )
    parser.add_argument(
        "--with",
        dest="extras",
        action="append",
        default=[],
        choices=sorted(EXTRA_TOOLS),
        help="build this tool too (may be repeated)",
    )
    options = parser.parse_args(arguments)
    if options.print_dir:
        print(tools_dir())
        return 0
    # dict.fromkeys drops a repeated extra while keeping the order.
    extras = [EXTRA_TOOLS[name] for name in dict.fromkeys(options.extras)]
    try:
        directory = ensure_tools([*DEFAULT_TOOLS, *extras])
    except ToolsError as error:
        report(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        report("interrupted")
        return 130
    print(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
