"""Alerts, dashboard and ServiceMonitor refer to what the product serves, and nothing else."""

from __future__ import annotations

import json
import re

from tests.support import overlays
from tests.support.overlays import DEPLOY
from tests.support.paths import ROOT

FOLDER = DEPLOY / "components" / "metrics"
PAGE = (ROOT / "docs/reference/metrics.md").read_text()
FUNCTIONS = {"sum", "min", "max", "count", "by", "rate", "histogram_quantile"}


def described() -> dict[str, set[str]]:
    """Metric -> labels, of the page that is written from what is registered."""
    return {
        name: {each.strip() for each in labels.split(",") if each.strip()}
        for name, labels in re.findall(r"^\| `([a-z_]+)` \| ([a-z, ]*) ?\|", PAGE, re.M)
    }


def expressions() -> list[str]:
    [alerts] = overlays.documents(FOLDER / "alerts.yaml")
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    return [
        *(rule["expr"] for group in alerts["spec"]["groups"] for rule in group["rules"]),
        *(target["expr"] for panel in dashboard["panels"] for target in panel["targets"]),
    ]


def undeclared(expression: str) -> set[str]:
    """Metrics and labels of an expression that the page does not have."""
    known = described()
    bare = re.sub(r'"[^"]*"', "", expression)
    words = set(re.findall(r"(?<![\w.])[a-z_]\w*", re.sub(r"\[[^]]*\]", "", bare))) - FUNCTIONS
    metrics = {word: re.sub(r"_bucket$", "", word) for word in words}
    used = {metric for metric in metrics.values() if metric in known}
    labels = {"le"}.union(*(known[metric] for metric in used))
    return {word for word, metric in metrics.items() if metric not in known and word not in labels}


def test_alerts_and_dashboard_use_only_metrics_and_labels_that_are_served() -> None:
    found = expressions()

    assert len(found) > 20
    assert {each: undeclared(each) for each in found if undeclared(each)} == {}


def test_a_metric_or_label_that_is_not_served_is_found() -> None:
    assert undeclared("sum by (fleet) (compute_runtime_cluster)") == {
        "compute_runtime_cluster",
        "fleet",
    }
    assert undeclared("sum by (name) (compute_runtime_clusters)") == {"name"}


def test_every_alert_says_what_is_wrong_and_how_bad() -> None:
    [alerts] = overlays.documents(FOLDER / "alerts.yaml")
    rules = [rule for group in alerts["spec"]["groups"] for rule in group["rules"]]

    assert len({rule["alert"] for rule in rules}) == len(rules) >= 10
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["for"]


def test_the_monitor_scrapes_the_port_of_the_service() -> None:
    [service] = overlays.documents(FOLDER / "service.yaml")
    [monitor] = overlays.documents(FOLDER / "monitor.yaml")

    selector = monitor["spec"]["selector"]["matchLabels"]
    assert selector.items() <= service["metadata"]["labels"].items()
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] == service["spec"]["ports"][0]["name"]


def test_panels_of_the_dashboard_have_a_place_each() -> None:
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    places = {(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels}

    assert len(places) == len(panels) == len({each["id"] for each in panels})
