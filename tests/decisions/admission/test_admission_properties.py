"""What holds for every document."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api.compute import instance_names, names
from datum_compute.decisions.admission import (
    Offer,
    decide_admission,
    decide_defaults,
    decide_needs,
    with_defaults,
)
from datum_compute.decisions.instances.revisions import template_hash
from tests.support.decisions.workloads import CONTAINER, MACHINE

OFFERS = st.sampled_from([Offer(None), Offer(()), Offer(("DFW",), frozenset({"default"}))])

FIELDS = sorted(
    {
        *("metadata", "spec", "name", "namespace", "generateName", "labels", "annotations"),
        *("template", "placements", "cityCodes", "scaleSettings", "minReplicas", "maxReplicas"),
        *("metrics", "resource", "target", "value", "averageValue", "averageUtilization"),
        *("runtime", "resources", "instanceType", "requests", "sandbox", "virtualMachine"),
        *("containers", "image", "env", "valueFrom", "secretKeyRef", "key", "ports", "port"),
        *("protocol", "volumeAttachments", "mountPath", "volumes", "disk", "populator", "storage"),
        *("filesystem", "type", "configMap", "secret", "secretName", "items", "defaultMode"),
        *("networkInterfaces", "network", "networkPolicy", "ingress", "from", "ipBlock", "cidr"),
        *("except", "endPort", "compute.datumapis.com/ssh-keys", "instanceManagementPolicy"),
    }
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
    | st.sampled_from(["default", "DFW", "10Gi", "1e99999999999", "/data", "a:b", "10.0.0.0/8"])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every value in a document."""
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(one for step, item in inner for one in places(item, (*path, step)))]


@st.composite
def corrupted(draw: st.DrawFn) -> Any:
    """A valid workload with an arbitrary value in one or two places."""
    document: Any = [copy.deepcopy(draw(st.sampled_from([CONTAINER, MACHINE])))]
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(places(document)[1:]))
        parent = document
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = draw(JSON)
    return document[0]


DOCUMENTS = corrupted() | JSON


@given(DOCUMENTS, OFFERS)
def test_every_document_is_validated_without_an_exception(document: Any, offer: Offer) -> None:
    decision = decide_admission(document, offer=offer)

    for error in decision.errors:
        json.dumps(str(error))
    decide_needs(document)


@given(DOCUMENTS, DOCUMENTS, OFFERS)
def test_every_update_is_validated_without_an_exception(
    document: Any, old: Any, offer: Offer
) -> None:
    create = decide_admission(document, offer=offer)
    update = decide_admission(document, offer=offer, old=old)

    assert set(map(str, update.errors)) <= set(map(str, create.errors))


@given(DOCUMENTS, OFFERS)
def test_an_unchanged_update_is_never_refused(document: Any, offer: Offer) -> None:
    if document is None:
        return

    decision = decide_admission(document, offer=offer, old=copy.deepcopy(document))

    assert (decision.errors, decision.warnings) == ((), ())


@given(DOCUMENTS)
def test_validation_does_not_change_the_document(document: Any) -> None:
    before = json.dumps(document)

    decide_admission(document, offer=Offer(()))
    with_defaults(document)

    assert json.dumps(document) == before


@given(DOCUMENTS)
def test_defaulting_is_idempotent(document: Any) -> None:
    once = with_defaults(document)

    assert decide_defaults(once) == ()
    assert with_defaults(once) == once


@given(corrupted())
def test_defaulting_leaves_the_template_hash_as_it_is(workload: Any) -> None:
    spec = workload.get("spec") if isinstance(workload, dict) else None
    template = spec.get("template") if isinstance(spec, dict) else None
    if not isinstance(template, dict):
        return

    assert template_hash(with_defaults(workload)["spec"]["template"]) == template_hash(template)


@given(corrupted(), OFFERS)
def test_defaulting_does_not_change_the_errors(workload: Any, offer: Offer) -> None:
    before = decide_admission(workload, offer=offer).errors

    assert decide_admission(with_defaults(workload), offer=offer).errors == before


def test_defaults_are_filled_in_only_where_their_parent_exists() -> None:
    filled = with_defaults(CONTAINER)["spec"]

    template = filled["template"]["spec"]
    assert template["runtime"]["sandbox"]["containers"][0]["ports"][0]["protocol"] == "TCP"
    assert template["volumes"][0]["disk"]["template"]["spec"]["type"] == "pd-standard"
    assert filled["placements"][0]["scaleSettings"]["instanceManagementPolicy"] == "OrderedReady"
    assert "ports" not in template["runtime"]["sandbox"]["containers"][1]


LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@given(LABELS, st.lists(LABELS, min_size=1, max_size=3, unique=True))
def test_deployments_of_an_accepted_workload_have_names_that_fit(
    name: str, placements: list[str]
) -> None:
    workload = copy.deepcopy(CONTAINER)
    workload["metadata"]["name"] = name
    scale = {"minReplicas": 1000}
    workload["spec"]["placements"] = [
        {"name": each, "cityCodes": ["DFW", "LHR"], "scaleSettings": scale} for each in placements
    ]

    assert decide_admission(workload, offer=Offer(("DFW", "LHR"))).errors == ()
    made = [
        names.deployment_name(name, "uid", placement, city)
        for placement in placements
        for city in ("DFW", "LHR")
    ]
    assert len(set(made)) == len(made)
    assert all(len(instance_names.instance_name(one, 999)) <= 63 for one in made)
