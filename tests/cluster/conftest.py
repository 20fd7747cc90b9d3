"""Fixtures of the suite that runs against a real API server."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from scripts import build_image
from scripts.cluster_tools import (
    DEFAULT_TOOLS,
    EXTRA_TOOLS,
    KUBE_CONTROLLER_MANAGER,
    Tool,
    ToolsError,
    ensure_tools,
    find_go,
    missing_tools,
    tools_dir,
)
from tests.support.cluster import node
from tests.support.cluster.control_plane import ControlPlane

TOOLS_OF_MARKERS = {"kubelet": EXTRA_TOOLS["node"], "karmada": EXTRA_TOOLS["karmada"]}
LEFT_OUT = pytest.StashKey[list[str]]()


def wanted_tools(items: Sequence[pytest.Item]) -> list[Tool]:
    found = [*DEFAULT_TOOLS, KUBE_CONTROLLER_MANAGER]
    for marker, tools in TOOLS_OF_MARKERS.items():
        if any(item.get_closest_marker(marker) for item in items):
            found += tools
    return list(dict.fromkeys(found))


def leave_out(config: pytest.Config, items: list[pytest.Item], marker: str, reason: str) -> None:
    """A person learns what was not tested; an automatic run must test everything."""
    left = [item for item in items if item.get_closest_marker(marker)]
    if not left or not reason:
        return
    if os.environ.get("CI"):
        raise pytest.UsageError(f"{len(left)} tests cannot run: {reason}")
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
    config.stash.setdefault(LEFT_OUT, []).append(f"{len(left)} tests are left out: {reason}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items, "kubelet", node.missing())
    absent = ", ".join(build_image.missing_programs())
    leave_out(config, items, "image", f"{absent} is not installed" if absent else "")
    if missing_tools(tools_dir(), wanted_tools(items)):
        try:
            find_go()
        except ToolsError as error:
            leave_out(config, items, "cluster", str(error))
    # Whichever test comes first starts the servers; that time is bounded by the control plane
    # itself and must not count against the test.
    for item in items:
        if item.get_closest_marker("cluster") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(func_only=True))


def pytest_collection_finish(session: pytest.Session) -> None:
    # The first build takes many minutes, far longer than any test may: it happens here, before
    # the clock of a test runs, with its progress on the terminal.
    if session.config.option.collectonly:
        return
    if not any(item.get_closest_marker("cluster") for item in session.items):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    shown = capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()
    try:
        with shown:
            ensure_tools(wanted_tools(session.items))
    except ToolsError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in terminalreporter.config.stash.get(LEFT_OUT, []):
        terminalreporter.write_line(line)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and LEFT_OUT in session.config.stash:
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """One etcd and one kube-apiserver, shared by the whole session."""
    with ControlPlane(ensure_tools()) as running:
        yield running


@pytest.fixture(scope="session")
def manager_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image that `make image` builds, as an archive."""
    folder = tmp_path_factory.mktemp("image")
    build_image.build(folder)
    return Path(shutil.make_archive(str(folder / "manager"), "tar", folder / "image"))
