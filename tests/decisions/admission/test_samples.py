"""Every sample is a Workload that is accepted, with the warnings it should have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.decisions.admission import Offer, decide_admission
from tests.support.decisions.samples import FILES, SAMPLES, WARNINGS


def sample(path: Path) -> dict[str, Any]:
    (document,) = yaml.safe_load_all(path.read_text())
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_sample_is_accepted_with_the_right_warnings(path: Path) -> None:
    offer = Offer(("DFW", "IAD", "LHR"), frozenset({"default"}))

    decision = decide_admission(sample(path), offer=offer)

    assert [str(error) for error in decision.errors] == []
    assert list(decision.warnings) == WARNINGS.get(path.name, [])


def test_each_sample_shows_the_feature_of_its_name() -> None:
    found = {path.name: sample(path)["spec"] for path in FILES}

    assert set(WARNINGS) <= set(found)
    assert len(found["placements.yaml"]["placements"]) > 1
    machine = found["virtual-machine.yaml"]["template"]["spec"]
    assert "virtualMachine" in machine["runtime"]
    assert all("disk" in volume for volume in machine["volumes"])
    volumes = found["config-and-secret.yaml"]["template"]["spec"]["volumes"]
    assert {kind for volume in volumes for kind in volume} == {"name", "configMap", "secret"}
    runtime = found["command-and-args.yaml"]["template"]["spec"]["runtime"]
    assert {"command", "args"} <= set(runtime["sandbox"]["containers"][0])


def test_every_sample_is_documented() -> None:
    page = (SAMPLES / "README.md").read_text()

    assert [path.name for path in FILES if f"({path.name})" not in page] == []
