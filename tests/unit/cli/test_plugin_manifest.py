"""The plugin manifest that the installed command prints for datumctl."""

from __future__ import annotations

import io
import json

import pytest

from datum_compute import __version__
from datum_compute.cli.context import Streams
from datum_compute.cli.main import main
from datum_compute.testing.environment import SimulatedEnvironment


@pytest.mark.parametrize(
    "argv",
    [
        ["--plugin-manifest"],
        ["deploy", "--plugin-manifest"],
        ["--no-such-flag", "--plugin-manifest", "no-such-command"],
    ],
)
def test_the_plugin_manifest_is_printed_before_arguments_are_parsed(argv: list[str]) -> None:
    out, err = io.StringIO(), io.StringIO()

    code = main(argv, SimulatedEnvironment(), Streams(io.StringIO(), out, err))

    assert (code, err.getvalue()) == (0, "")
    assert json.loads(out.getvalue()) == {
        "name": "compute",
        "version": __version__,
        "description": "Run workloads in many cities",
        "api_version": 1,
        "min_api_version": 1,
    }
