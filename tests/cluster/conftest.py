"""Fixtures of the suite that runs against a real API server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from scripts.cluster_tools import (
    DEFAULT_TOOLS,
    KUBE_CONTROLLER_MANAGER,
    NODE_TOOLS,
    ToolsError,
    ensure_tools,
)
from tests.support.cluster import node
from tests.support.cluster.control_plane import ControlPlane


def pytest_report_header() -> list[str]:
    absent = node.missing()
    return [f"tests with a kubelet are left out: {absent}"] if absent else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if node.missing():
        without = [item for item in items if item.get_closest_marker("kubelet") is None]
        config.hook.pytest_deselected(items=[item for item in items if item not in without])
        items[:] = without
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
            with_node = any(item.get_closest_marker("kubelet") for item in session.items)
            more = NODE_TOOLS if with_node else (KUBE_CONTROLLER_MANAGER,)
            ensure_tools([*DEFAULT_TOOLS, *more])
    except ToolsError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """One etcd and one kube-apiserver, shared by the whole session."""
    with ControlPlane(ensure_tools()) as running:
        yield running
