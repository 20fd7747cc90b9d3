"""The hub trusts the service accounts of other clusters, as the page about installing has it."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import yaml

from tests.support.cluster.control_plane import ControlPlane
from tests.support.paths import ROOT

PAGE = ROOT / "docs/operate/install.md"
DISCOVERY = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "issuer-discovery"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "system:service-account-issuer-discovery",
    },
    "subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"}
    ],
}
"""The hub reads the keys of the issuer without a credential."""
PAGE_CELL = "dfw"
MANAGEMENT = "management"


def configuration() -> dict[str, Any]:
    """The AuthenticationConfiguration of the page."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    [found] = [
        document
        for document in map(yaml.safe_load, blocks)
        if document["kind"] == "AuthenticationConfiguration"
    ]
    return dict(found)


def issuer(cluster: str) -> str:
    """The issuer of a cluster, named as the page names that of its cell."""
    return str(configuration()["jwt"][0]["issuer"]["url"]).replace(PAGE_CELL, cluster)


def trust(clusters: Mapping[str, ControlPlane]) -> dict[str, Any]:
    """The configuration of a hub that trusts these clusters: cells, and ``management``. The names
    of issuers lead nowhere: their keys are read where the clusters are."""
    config = configuration()
    [page] = config["jwt"]
    entries = []
    for name, plane in clusters.items():
        entry = copy.deepcopy(page)
        entry["issuer"] |= {
            "url": issuer(name),
            "discoveryURL": f"{plane.server}/.well-known/openid-configuration",
            "certificateAuthority": plane.ca_pem.decode(),
        }
        username = entry["claimMappings"]["username"]
        username["expression"] = username["expression"].replace(PAGE_CELL, name)
        if name == MANAGEMENT:
            entry["claimMappings"] = {"username": {"expression": "'compute-management'"}}
        entries.append(entry)
    return config | {"jwt": entries}
