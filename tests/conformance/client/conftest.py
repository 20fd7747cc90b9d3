"""One server for all tests over HTTPS; each in its own namespaces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client_conformance.targets import HttpsServer, https_server


@pytest.fixture(scope="session")
def https() -> Iterator[HttpsServer]:
    with https_server() as server:
        yield server
