"""Real Karmada with two cells, shared by all tests of this folder, and a federation on it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from scripts.cluster_tools import DEFAULT_TOOLS, EXTRA_TOOLS, ensure_tools
from tests.support.cluster.karmada import KarmadaClusters
from tests.support.cluster.karmada_stage import SharedStage


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test with the fixture ``on`` runs on the loop of that federation, and gets it."""
    shared = pyfuncitem.funcargs.get("on")
    if not isinstance(shared, SharedStage):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    others = {name: pyfuncitem.funcargs[name] for name in names if name != "on"}
    shared.run(lambda stage: pyfuncitem.obj(on=stage, **others))
    return True


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KarmadaClusters]:
    tools = ensure_tools([*DEFAULT_TOOLS, *EXTRA_TOOLS["karmada"]])
    # A run that is terminated cleans up as one that is interrupted does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with KarmadaClusters(tools, tmp_path_factory.mktemp("karmada")) as running:
        yield running


@pytest.fixture(scope="module")
def on(
    clusters: KarmadaClusters, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedStage]:
    with SharedStage(clusters, tmp_path_factory.mktemp("stage")) as stage:
        yield stage
