from __future__ import annotations

from pathlib import Path

import pytest

from datum_compute.apiserver.storage import find_engine
from datum_compute.apiserver.storage.protocol import Engine
from tests.support.apiserver.stores import ENGINES, OpenStore


@pytest.fixture(params=list(ENGINES.values()), ids=list(ENGINES))
def open_store(request: pytest.FixtureRequest) -> OpenStore:
    """How to open a store of each engine."""
    found: OpenStore = request.param
    return found


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine by itself."""
    return find_engine(request.param)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store")
