#!/usr/bin/env python3
"""Build the etcd, the parts of Kubernetes, Karmada, kwok and helm that the suites use.

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
import itertools
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
KARMADA_VERSION = "v1.18.2"
KWOK_VERSION = "v0.7.0"
HELM_VERSION = "v3.22.0"

# Raised when the way of building changes while the versions stay: old caches must not be reused.
RECIPE = 1

ETCD_MODULE = "go.etcd.io/etcd/server/v3"
KUBERNETES_MODULE = "k8s.io/kubernetes"
KARMADA_MODULE = "github.com/karmada-io/karmada"
KWOK_MODULE = "sigs.k8s.io/kwok"
HELM_MODULE = "helm.sh/helm/v3"

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


def _kubernetes(name: str) -> Tool:
    package = f"{KUBERNETES_MODULE}/cmd/{name}"
    return Tool(name, KUBERNETES_MODULE, KUBERNETES_VERSION, package)


ETCD = Tool("etcd", ETCD_MODULE, ETCD_VERSION, ETCD_MODULE)
KUBE_APISERVER = _kubernetes("kube-apiserver")
KUBECTL = _kubernetes("kubectl")
KUBE_CONTROLLER_MANAGER = _kubernetes("kube-controller-manager")
KUBE_SCHEDULER = _kubernetes("kube-scheduler")
KUBELET = _kubernetes("kubelet")
# The cache is named after the versions of the others, so these carry their own.
KWOK = Tool(f"kwok-{KWOK_VERSION}", KWOK_MODULE, KWOK_VERSION, f"{KWOK_MODULE}/cmd/kwok")
HELM = Tool(f"helm-{HELM_VERSION}", HELM_MODULE, HELM_VERSION, f"{HELM_MODULE}/cmd/helm")

KARMADA_TOOLS: Mapping[str, Tool] = {
    name: Tool(
        f"karmada-{name}-{KARMADA_VERSION}",
        KARMADA_MODULE,
        KARMADA_VERSION,
        f"{KARMADA_MODULE}/cmd/{name}",
    )
    for name in ("aggregated-apiserver", "webhook", "controller-manager", "scheduler", "agent")
}
KARMADA_MANIFESTS = f"karmada-manifests-{KARMADA_VERSION}"
"""A folder in the cache: what Karmada's module has besides programs."""

DEFAULT_TOOLS: tuple[Tool, ...] = (ETCD, KUBE_APISERVER, KUBECTL)
NODE_TOOLS: tuple[Tool, ...] = (KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER, KUBELET)
"""What runs Pods, besides containerd."""

EXTRA_TOOLS: Mapping[str, tuple[Tool, ...]] = {
    "controller-manager": (KUBE_CONTROLLER_MANAGER,),
    "karmada": (KUBE_CONTROLLER_MANAGER, *KARMADA_TOOLS.values()),
    "node": NODE_TOOLS,
    "kwok": (KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER, KWOK),
    "helm": (HELM,),
}


@dataclass(frozen=True)
class UpstreamModule:
    """What the building module has to know of the module it builds from."""

    go: str
    godebug: Mapping[str, str]
    # Modules that upstream replaces with a directory of its own tree.
    local_replacements: Sequence[str]
    directory: Path
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
        directory=Path(download["Dir"]),
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
    if tool.module == KARMADA_MODULE:
        flags.append(f"-X {KARMADA_MODULE}/pkg/version.gitVersion={tool.version}")
    return " ".join(flags)


def compile_tools(
    go: str, tools: Sequence[Tool], upstream: UpstreamModule, module: Path, output: Path
) -> None:
    """Compile tools of one module into a directory, in one build that shares their packages."""
    names = ", ".join(tool.name for tool in tools)
    command = [
        go,
        "build",
        # The module is generated without a go.sum; this lets go fill it, each entry checked
        # against the checksum database.
        "-mod=mod",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        linker_flags(tools[0], upstream),
        "-o",
        f"{output}/",
        *(tool.package for tool in tools),
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
                    report(f"still building {names} ({elapsed:.0f} s)")
        except BaseException:
            process.terminate()
            raise
    if code != 0:
        raise ToolsError(f"building {names} {tools[0].version} failed with exit code {code}")


def build(go: str, tools: Sequence[Tool], work: Path, directory: Path) -> None:
    """Build tools of one module and put them into the cache."""
    started = time.monotonic()
    names, version = ", ".join(tool.name for tool in tools), tools[0].version
    report(f"building {names} {version}")
    module, output = work / tools[0].name / "module", work / tools[0].name / "bin"
    module.mkdir(parents=True)
    output.mkdir()
    upstream = read_upstream(go, tools[0], module)
    (module / "go.mod").write_text(go_mod(tools[0], upstream), encoding="utf-8")
    compile_tools(go, tools, upstream, module, output)
    directory.mkdir(parents=True, exist_ok=True)
    if tools[0].module == KARMADA_MODULE:
        keep_manifests(upstream.directory, work, directory)
    size = sum(path.stat().st_size for path in output.iterdir()) / 2**20
    for tool in tools:
        # The work directory lies in the cache root, hence on the same file system: a reader
        # sees either no binary or the whole one.
        os.replace(output / go_binary(tool), directory / tool.name)
    report(f"built {names} {version} in {time.monotonic() - started:.0f} s ({size:.0f} MiB)")


def keep_manifests(module: Path, work: Path, directory: Path) -> None:
    """Copy Karmada's definitions and registrations before its programs: where those are, these
    are too, and Go may have cleaned its module cache since."""
    kept = work / KARMADA_MANIFESTS
    for folder in ("charts/karmada/_crds", "artifacts/deploy"):
        # Modules are read-only; a copy that is not can be deleted with the cache.
        shutil.copytree(module / folder, kept / folder, copy_function=shutil.copyfile)
    for path in (kept, *(path for path in kept.rglob("*") if path.is_dir())):
        path.chmod(0o755)
    shutil.rmtree(directory / KARMADA_MANIFESTS, ignore_errors=True)
    os.replace(kept, directory / KARMADA_MANIFESTS)


def go_binary(tool: Tool) -> str:
    """The name that go gives to the binary: the last part of the package's path that is not a
    major version."""
    parts = tool.package.split("/")
    return parts[-2] if parts[-1].startswith("v") and parts[-1][1:].isdigit() else parts[-1]


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
        missing = missing_tools(directory, tools)
        for _, same in itertools.groupby(missing, key=lambda tool: tool.module):
            build(go, list(same), Path(work), directory)
    return directory


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Build the etcd, kube-apiserver and kubectl of the cluster suite, "
        "with more on request, and print the directory that holds them."
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
        help="build these too (may be repeated)",
    )
    options = parser.parse_args(arguments)
    if options.print_dir:
        print(tools_dir())
        return 0
    # dict.fromkeys drops a repeated tool while keeping the order.
    extras = itertools.chain.from_iterable(EXTRA_TOOLS[name] for name in options.extras)
    try:
        directory = ensure_tools(list(dict.fromkeys([*DEFAULT_TOOLS, *extras])))
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
