"""Invocations of kubectl whose outcomes are compared with those on a real server, in order.

``{dir}`` stands for the directory of :data:`FILES`. What is compared is the exit code and both
outputs, without what always differs.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

from tests.support.differential.raw_cases import definition

GROUP = "kubectl.example.com"


def _definition() -> dict[str, Any]:
    body = definition(group=GROUP)
    body["metadata"] = {"name": f"widgets.{GROUP}"}
    body["spec"]["names"] |= {"categories": ["golden"], "shortNames": ["gwdg"]}
    return body


def _definition_without_scale() -> dict[str, Any]:
    names = {"plural": "fixtures", "singular": "fixture", "kind": "Fixture"}
    body = definition(group=GROUP, names=names)
    body["metadata"] = {"name": f"fixtures.{GROUP}"}
    del body["spec"]["versions"][0]["subresources"]["scale"]
    return body


def _map(name: str, **content: Any) -> dict[str, Any]:
    metadata = {"name": name, **content.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}


def _widget(name: str, **content: Any) -> dict[str, Any]:
    metadata = {"name": name, **content.pop("metadata", {})}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": metadata, **content}


FILES: dict[str, Any] = {
    "definition": _definition(),
    "definition-without-scale": _definition_without_scale(),
    "fixture": {**_widget("filed", spec={"size": 2}), "kind": "Fixture"},
    "map": _map("filed", data={"a": "1"}),
    "map-changed": _map("filed", data={"a": "2", "b": "3"}),
    "map-odd": _map("odd", data={"a": 1}),
    "map-unknown": _map("odd", dota={"a": "1"}),
    "widget": _widget("filed", spec={"size": 2, "color": "red"}),
    "widget-changed": _widget("filed", spec={"size": 4, "color": "green"}),
    "widget-odd": _widget("odd", spec={"size": 99}),
    "widget-unknown": _widget("odd", spec={"sise": 1}),
    "list": {
        "apiVersion": "v1",
        "kind": "List",
        "items": [_map("listed-a"), _widget("listed-b", spec={"size": 1})],
    },
    "held": _widget("held", metadata={"finalizers": ["example.com/hold"]}),
    "unknown-kind": {"apiVersion": "odd.example.com/v1", "kind": "Odd", "metadata": {"name": "x"}},
    "unknown-core-kind": {"apiVersion": "v1", "kind": "Odd", "metadata": {"name": "x"}},
    "no-kind": {"apiVersion": "v1", "metadata": {"name": "x"}},
    "no-name": _map(""),
    "patch": {"data": {"c": "4"}},
}


def write_files(directory: Any) -> None:
    for name, content in FILES.items():
        (directory / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


PREPARATION = (
    "create -f {dir}/definition.json",
    f"wait --for=condition=Established crd/widgets.{GROUP} --timeout=30s",
    "create namespace golden",
)


def cases() -> list[str]:
    """All invocations; each is in the namespace ``golden``."""
    found: list[str] = []
    for part in (
        _creates(),
        _reads(),
        _selections(),
        _explanations(),
        _applies(),
        _changes(),
        _rights(),
        _server(),
        _mistakes(),
        _deletions(),
    ):
        found += part
    return found


def words(case: str, directory: Any) -> list[str]:
    return shlex.split(case.replace("{dir}", str(directory)))


def _creates() -> Iterator[str]:
    yield "create configmap one --from-literal=a=1 --from-literal=b=2"
    yield "create configmap one"
    yield "create configmap two"
    yield "create configmap from-file --from-file=key={dir}/patch.json"
    yield "create configmap Odd_Name"
    yield "create configmap dry --dry-run=client -o yaml"
    yield "create configmap dry --dry-run=server -o name"
    yield "create configmap shown -o name"
    yield "create secret generic one --from-literal=password=x"
    yield "create secret generic typed --type=example.com/own --from-literal=a=b"
    yield "create secret generic odd --type=kubernetes.io/tls --from-literal=a=b"
    login = "--docker-username=u --docker-password=p --docker-server=s"
    yield f"create secret docker-registry pull {login}"
    yield "create serviceaccount one"
    yield "create serviceaccount one"
    yield "create namespace golden-second"
    yield "create namespace golden-second"
    yield "create namespace Odd_Name"
    yield "create role one --verb=get --verb=list --resource=configmaps"
    yield "create role named --verb=get --resource=secrets --resource-name=one"
    yield "create role odd --verb=get --resource=odds"
    yield "create rolebinding one --role=one --user=ana"
    subjects = "--user=ana --group=g --serviceaccount=golden:one"
    yield f"create rolebinding many --clusterrole=golden-paths {subjects}"
    yield "create clusterrole golden-one --verb=get,list --resource=widgets.kubectl.example.com"
    yield "create clusterrole golden-paths --verb=get --non-resource-url=/metrics"
    yield "create clusterrolebinding golden-one --clusterrole=golden-one --user=ben"
    yield "create -f {dir}/widget.json"
    yield "create -f {dir}/widget.json"
    yield "create -f {dir}/widget-odd.json"
    yield "create -f {dir}/widget-unknown.json"
    yield "create -f {dir}/widget-unknown.json --validate=warn --dry-run=server"
    yield "create -f {dir}/widget-unknown.json --validate=ignore --dry-run=server"
    yield "create -f {dir}/map-odd.json"
    yield "create -f {dir}/map-unknown.json"
    yield "create -f {dir}/map-unknown.json --validate=warn --dry-run=server"
    yield "create -f {dir}/map-unknown.json --validate=false --dry-run=server"
    yield "create -f {dir}/list.json"
    yield "create -f {dir}/held.json"
    yield "create -f {dir}/map.json --save-config"
    yield "create token one --duration=1s"
    yield "create token absent"


KINDS = (
    ("configmap", "one"),
    ("secret", "one"),
    ("serviceaccount", "one"),
    ("role", "one"),
    ("rolebinding", "one"),
    ("clusterrole", "golden-one"),
    ("clusterrolebinding", "golden-one"),
    ("namespace", "golden-second"),
    ("widget", "filed"),
    ("crd", f"widgets.{GROUP}"),
)


def _reads() -> Iterator[str]:
    for kind, name in KINDS:
        yield f"get {kind} {name}"
        yield f"get {kind} {name} -o wide"
        yield f"get {kind} {name} -o name"
        yield f"get {kind} {name} -o jsonpath={{.metadata.name}}"
        yield f"get {kind} {name} -o custom-columns=N:.metadata.name,K:.kind"
        yield f"get {kind} {name} --show-labels"
        yield f"get {kind} {name} --no-headers"
        yield f"get {kind} absent"
        yield f"get {kind} absent --ignore-not-found"
        yield f"describe {kind} absent"
        if kind != "crd":
            yield f"get {kind} {name} -o yaml"
            yield f"get {kind} {name} -o json"
            yield f"get {kind}/{name} --template={{{{.metadata.name}}}}"
    for kind, name in KINDS[:5]:
        yield f"describe {kind} {name}"
    yield "describe widget filed"
    yield "describe namespace golden-second"


def _selections() -> Iterator[str]:
    yield "get cm"
    yield "get cm -o wide"
    yield "get cm,secret -o name"
    yield "get widgets"
    yield "get gwdg -o wide"
    yield f"get widgets.{GROUP}"
    yield f"get widgets.v1.{GROUP} -o name"
    yield "get golden"
    yield "get golden -o name"
    yield "get cm --sort-by=.metadata.name"
    yield "get cm --chunk-size=1"
    yield "get cm -l a=b"
    yield "get cm -l a"
    yield "get cm -l 'a in (b,c)'"
    yield "get cm -l 'a in ('"
    yield "get cm --field-selector=metadata.name=one"
    yield "get cm --field-selector=odd=1"
    yield "get widgets --field-selector=spec.color=red"
    yield "get widgets --field-selector=spec.size=2"
    yield "get secret --field-selector=type=Opaque"
    yield "get cm one two"
    yield "get cm one absent"
    yield "get cm/one secret/one"
    yield "get -f {dir}/widget.json"
    yield "get -f {dir}/map.json -o name"
    yield "get all"
    yield "get events"
    yield "get ev"
    yield "events"
    yield "events --for=widget/filed"
    yield "get leases"
    yield "get services"
    yield "get svc -o name"
    yield "get cm -o odd"
    yield "get cm --raw=/x"
    yield "get odds"
    yield "get odd.example.com"
    yield "get"
    yield "get cm one --watch --request-timeout=1s"
    yield "get --raw=/healthz"
    yield "get --raw=/livez"
    yield "get --raw=/readyz"
    yield "get --raw=/odd"
    yield "get widgets -A -o name"
    yield "get cm one -o go-template={{.data.a}}"
    yield "get cm one -o jsonpath={.data}"
    yield "get cm one -o jsonpath={.odd}"
    yield "get cm one --output-watch-events --watch --request-timeout=1s"


def _explanations() -> Iterator[str]:
    yield "explain widgets"
    yield "explain widgets.spec"
    yield "explain widgets.spec.size"
    yield "explain widgets.spec.odd"
    yield "explain widgets --recursive"
    yield "explain odds"
    yield "explain cm.odd"
    yield f"api-resources --api-group={GROUP}"
    yield f"api-resources --api-group={GROUP} -o name"
    yield f"api-resources --api-group={GROUP} -o wide"
    yield "api-resources --api-group=coordination.k8s.io -o name"
    yield "api-resources --api-group=rbac.authorization.k8s.io"
    yield "api-resources --api-group=authentication.k8s.io"
    yield "api-resources --api-group=authorization.k8s.io"
    yield "api-resources --api-group=events.k8s.io"
    yield "api-resources --categories=golden"
    yield "api-resources --api-group=odd"


def _applies() -> Iterator[str]:
    for kind in ("map", "widget"):
        yield f"apply -f {{dir}}/{kind}.json"
        yield f"apply -f {{dir}}/{kind}.json"
        yield f"apply -f {{dir}}/{kind}-changed.json --dry-run=client"
        yield f"apply -f {{dir}}/{kind}-changed.json --dry-run=server"
        yield f"diff -f {{dir}}/{kind}.json"
        yield f"apply -f {{dir}}/{kind}-changed.json"
        yield f"apply -f {{dir}}/{kind}-changed.json -o name"
        yield f"apply view-last-applied -f {{dir}}/{kind}.json"
        yield f"apply set-last-applied -f {{dir}}/{kind}.json"
        yield f"apply -f {{dir}}/{kind}-odd.json"
        yield f"apply -f {{dir}}/{kind}-unknown.json"
    yield "apply -f {dir}/list.json"
    yield "apply -f {dir}/list.json"
    yield "apply -f {dir}/unknown-kind.json"
    yield "apply -f {dir}/unknown-core-kind.json"
    yield "apply -f {dir}/no-kind.json"
    yield "apply -f {dir}/no-name.json"
    yield "apply -f {dir}/absent.json"


def _changes() -> Iterator[str]:
    for kind, name in (("cm", "one"), ("widget", "filed")):
        yield f"label {kind} {name} a=b"
        yield f"label {kind} {name} a=b"
        yield f"label {kind} {name} a=c"
        yield f"label {kind} {name} a=c --overwrite"
        yield f"label {kind} {name} a-"
        yield f"label {kind} {name} a-"
        yield f"label {kind} {name} 'a=not ok'"
        yield f"label {kind} {name} x=y --dry-run=server"
        yield f"label {kind} {name} --list"
        yield f"annotate {kind} {name} note='any thing'"
        yield f"annotate {kind} {name} note=other"
        yield f"annotate {kind} {name} note-"
        yield f"annotate {kind} {name} --list"
        yield f"label {kind} absent a=b"
        yield f"label {kind} --all b=c"
    yield 'patch cm one --type=merge -p \'{"data":{"a":"9"}}\''
    yield 'patch cm one --type=merge -p \'{"data":{"a":"9"}}\''
    yield 'patch cm one -p \'{"data":{"s":"9"}}\''
    yield 'patch cm one --type=json -p \'[{"op":"remove","path":"/data/s"}]\''
    yield 'patch cm one --type=json -p \'[{"op":"remove","path":"/data/s"}]\''
    yield 'patch cm one --type=json -p \'[{"op":"test","path":"/data/a","value":"x"}]\''
    yield "patch cm one --patch-file={dir}/patch.json"
    yield "patch cm one -p '{'"
    yield 'patch cm one -p \'{"data":{"a":1}}\''
    yield "patch cm absent -p '{}'"
    yield 'patch widget filed --type=merge -p \'{"spec":{"size":5}}\''
    yield 'patch widget filed --type=merge -p \'{"spec":{"size":99}}\''
    yield 'patch widget filed --type=merge --subresource=status -p \'{"status":{"phase":"Up"}}\''
    yield "get widget filed --subresource=status -o jsonpath={.status}"
    yield "get widget filed --subresource=scale"
    yield "scale widget filed --replicas=3"
    yield "scale widget filed --replicas=4 --current-replicas=9"
    yield "scale widget absent --replicas=3"
    yield "scale cm one --replicas=3"
    yield "create -f {dir}/definition-without-scale.json"
    yield f"wait --for=condition=Established crd/fixtures.{GROUP} --timeout=30s"
    yield "create -f {dir}/fixture.json"
    yield "scale fixture filed --replicas=3"
    yield "delete -f {dir}/definition-without-scale.json"
    yield "replace -f {dir}/map.json"
    yield "replace -f {dir}/widget.json"
    yield "replace -f {dir}/widget-odd.json"
    yield "replace --force -f {dir}/map.json"
    yield "wait --for=jsonpath={.status.phase}=Up widget/filed --timeout=5s"
    yield "wait --for=jsonpath={.status.phase}=Down widget/filed --timeout=1s"
    yield "wait --for=condition=Ready widget/filed --timeout=1s"
    yield "wait --for=create cm/one --timeout=5s"
    yield "wait --for=delete cm/absent --timeout=5s"
    yield "rollout status widget/filed"
    yield "rollout restart widget/filed"
    yield "autoscale widget filed --max=3"
    yield "set env cm/one A=b"


def _rights() -> Iterator[str]:
    yield "auth whoami -o jsonpath={.status.userInfo.username}"
    yield "auth can-i get configmaps"
    yield "auth can-i get configmaps --as=ana"
    yield "auth can-i list cm --as=ana"
    yield "auth can-i delete configmaps --as=ana"
    yield "auth can-i get secrets/one --as=ana"
    yield "auth can-i get widgets --as=ben"
    yield "auth can-i get widgets --as=ben -A"
    yield "auth can-i get /metrics --as=ana"
    yield "auth can-i get odds"
    yield "auth can-i '*' '*'"
    yield "auth can-i get configmaps --as=system:serviceaccount:golden:one"
    yield "auth whoami --as=ana --as-group=g --as-uid=7 -o jsonpath={.status.userInfo}"
    yield "get cm one --as=ana"
    yield "get cm -o name --as=ana"
    yield "get secret one --as=ana"
    yield "get secrets --as=ana"
    yield "delete cm one --as=ana"
    yield "get widgets -o name --as=ben"
    yield "get cm --as=ben"
    yield "create configmap x --as=ben"
    yield "create role more --verb=get --resource=secrets --as=ben"
    yield "get cm one --as=ana --as=ben"
    yield "get cm one --as-group=g"
    yield "auth reconcile -f {dir}/map.json"
    yield "describe role one"
    yield "describe rolebinding many"


def _server() -> Iterator[str]:
    yield "cluster-info"
    yield "api-versions"
    yield "options"
    yield "get componentstatuses"
    yield "get nodes"
    yield "get pods"
    yield "logs x"
    yield "exec x -- y"
    yield "top pods"


def _mistakes() -> Iterator[str]:
    yield "get cm one --namespace=absent"
    yield "create configmap x --namespace=absent"
    yield "get cm -n golden-second"
    yield "delete"
    yield "delete cm"
    yield "delete cm absent"
    yield "delete cm absent --ignore-not-found"
    yield "delete odds x"
    yield "edit cm absent"
    yield "label cm one"
    yield "patch cm one"
    yield "describe odds x"
    yield "get cm one -o jsonpath={"
    yield "create"
    yield "create odd"
    yield "expose cm one"
    yield "run x --image=y"


def _deletions() -> Iterator[str]:
    yield "delete cm two --dry-run=client"
    yield "delete cm two --dry-run=server"
    yield "delete cm two"
    yield "delete cm two"
    yield "delete cm shown -o name"
    yield "delete secret one typed"
    yield "delete widget held --wait=false"
    yield "delete widget held --timeout=1s"
    yield "get widget held -o jsonpath={.metadata.finalizers}"
    yield 'patch widget held --type=json -p \'[{"op":"remove","path":"/metadata/finalizers"}]\''
    yield "get widget held"
    yield "delete -f {dir}/map.json"
    yield "delete -f {dir}/list.json"
    yield "delete -f {dir}/list.json --ignore-not-found"
    yield "delete cm -l none=none"
    yield "delete widgets --all"
    yield "delete role one named"
    yield "delete rolebinding one many"
    yield "delete clusterrole golden-one golden-paths"
    yield "delete clusterrolebinding golden-one"
    yield "delete sa one"
    yield f"delete crd widgets.{GROUP} --wait=false"
    yield "get widgets"


_REPLACED = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
    (re.compile(r"https://127\.0\.0\.1:\d+(/clusters/hub)?"), "SERVER"),
    (re.compile(r'resourceVersion(\\?"?): \\?"\d+\\?"'), r"resourceVersion\1: RV"),
    (re.compile(r"Resource Version: +\d+"), "Resource Version: RV"),
    (re.compile(r'"resourceVersion":"\d+"'), '"resourceVersion":"RV"'),
    (re.compile(r"\b\d+[smh](\d+s)?(?=\s|$)"), "AGE"),
    (re.compile(r"(?m)^[EWI]\d{4} .*$\n?"), ""),
    (re.compile(r"/\S+/(?=[a-z-]+\.json)"), "DIR/"),
    (re.compile(r"/tmp/\S+"), "TMP"),
    (re.compile(r'in scheme "[^"]+"'), 'in scheme "SOURCE"'),  # a line of the program that runs
    (re.compile(r"[ \t]+"), " "),
)


def comparable_output(code: int, output: str, errors: str) -> list[Any]:
    """Exit code and outputs without what always differs; managed fields are dropped."""
    return [code, _plain(output), _plain(errors)]


def _plain(text: str) -> list[str]:
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    return [line.strip() for line in text.strip().splitlines()]
