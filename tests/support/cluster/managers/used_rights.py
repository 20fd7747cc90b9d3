"""Which rights of the shipped roles our managers have used on real engines, and which not."""

from __future__ import annotations

import re
from collections.abc import Iterable

from datum_compute.testing.calls import RecordedCall
from tests.support.cluster.audit import AuditedCall
from tests.support.cluster.karmada import CELLS
from tests.support.paths import ROOT
from tests.support.rights.manifests import allowed

PAGE = ROOT / "docs/operate/rights.md"
SECTION = "## Rights that a usual life does not use"
PROCESSES = ("compute-management", "compute-cell", "compute-election", "provider")
AUDITED = ("hub", "cell", "host")
"""Planes with an audit log. Root and projects are embedded here, and roles are recorded there."""
ACCOUNTS = "system:serviceaccount:compute-system:"


def granted() -> set[RecordedCall]:
    """What the roles for a federation allow."""
    return {call for call in allowed() if call.plane in AUDITED and call.user in PROCESSES}


def audited(calls: Iterable[AuditedCall]) -> set[RecordedCall]:
    """By process and type of plane."""
    found = set()
    for call in calls:
        plane, user, group, resource, verb = call.right
        kind = {"management": "host"} | dict.fromkeys(CELLS, "cell")
        process = re.sub(r"^compute-cell-.*", "compute-cell", user)
        if user.startswith(ACCOUNTS):
            account = user.removeprefix(ACCOUNTS)
            process = "provider" if account == "compute-provider" else "compute-cell"
        if group == "coordination.k8s.io":
            process, plane = "compute-election", "management"
        found.add(RecordedCall(process, kind.get(plane, plane), group, resource, verb))
    return found


def explained() -> set[RecordedCall]:
    """Those that the page lists, each with its reason."""
    section = PAGE.read_text().partition(SECTION)[2].partition("\n## ")[0]
    row = r"^\| `([a-z-]+)` \| ([a-z]+) \| `([^`]+)` \| ([a-z, ]+) \| \S.* \|$"
    found = set()
    for process, plane, resource, verbs in re.findall(row, section, re.M):
        name, _, subresource = resource.partition("/")
        plural, _, group = name.partition(".")
        full = f"{plural}/{subresource}" if subresource else plural
        found |= {
            RecordedCall(process, plane, group, full, verb.strip()) for verb in verbs.split(",")
        }
    return found
