"""A credential program in a directory of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.client.credential_program import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)
