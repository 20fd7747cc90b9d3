"""Generated sequences of applies, updates and patches, for comparing two API servers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.support.cluster.differential import DifferentialRequest

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
MANAGERS = ("m1", "m2", "m3")


class ApplyCase:
    """Some writes of one object, each followed by what it made."""

    def __init__(self, number: int, group: str, plural: str, namespace: str) -> None:
        self._chance = random.Random(number)
        self.name = f"case-{number}"
        self._version = f"{group}/v1"
        self._gadgets = f"/apis/{group}/v1/namespaces/{namespace}/{plural}"
        self._core = f"/api/v1/namespaces/{namespace}"

    def requests(self) -> Iterator[DifferentialRequest]:
        make = self._chance.choices(
            [self._gadget, self._config_map, self._service_account, self._secret], [16, 2, 1, 1]
        )[0]
        steps = self._chance.randint(3, 7)
        for step in range(steps):
            yield make(step)

    # Custom resources.

    def _gadget(self, step: int) -> DifferentialRequest:
        path = f"{self._gadgets}/{self.name}"
        body = self._object(self._version, "Gadget", spec=self._spec())
        if step == 0 and self._chance.random() < 0.4:
            return DifferentialRequest("POST", self._gadgets, body, self._by())
        make = self._chance.choices(
            [self._apply, self._merge, self._put, self._status, self._json],
            [10, 3, 3, 2, 1],
        )[0]
        return make(path, body)

    def _apply(self, path: str, body: Any) -> DifferentialRequest:
        return DifferentialRequest("PATCH", path, body, self._applying(), APPLY)

    def _merge(self, path: str, body: Any) -> DifferentialRequest:
        spec = {
            key: value if self._chance.random() < 0.8 else None
            for key, value in body["spec"].items()
        }
        patch: dict[str, Any] = {"spec": spec}
        if self._chance.random() < 0.3:
            patch["metadata"] = {"labels": {self._name(): self._pick("x", "y", None)}}
        return DifferentialRequest("PATCH", path, patch, self._by(), MERGE)

    def _put(self, path: str, body: Any) -> DifferentialRequest:
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": "@revision"}}
        return DifferentialRequest("PUT", path, body, self._by())

    def _status(self, path: str, body: Any) -> DifferentialRequest:
        status = self._some(
            phase=self._name(),
            replicas=self._number(),
            conditions=[
                {"type": each, "status": self._pick("True", "False")} for each in self._names()
            ],
        )
        path = f"{path}/status"
        if self._chance.random() < 0.5:
            patch = {"status": status}
            return DifferentialRequest("PATCH", path, patch, self._by(), MERGE)
        body = {**body, "status": status}
        return DifferentialRequest("PATCH", path, body, self._applying(), APPLY)

    def _json(self, path: str, body: Any) -> DifferentialRequest:
        operations = self._pick(
            [{"op": "add", "path": "/spec/size", "value": self._number()}],
            [{"op": "remove", "path": "/spec/size"}],
            [{"op": "add", "path": "/metadata/managedFields", "value": [{}]}],
            [{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "renamed"}],
        )
        return DifferentialRequest(
            "PATCH", path, operations, self._by(), "application/json-patch+json"
        )

    def _spec(self) -> dict[str, Any]:
        return self._some(
            size=self._number(),
            replicas=self._number() + 1,
            tags=self._names(),
            colors=[self._name() for _ in range(self._number())],
            ports=[
                {"name": each, **self._some(port=self._number(), weights=[self._number()])}
                for each in self._names()
            ],
            routes=self._routes(),
            labels={each: self._name() for each in self._names()},
            selector={each: self._name() for each in self._names()},
            box=self._some(height=self._number(), width=self._number()),
            boxes={
                each: self._some(height=self._number(), names={self._name(): self._name()})
                for each in self._names()
            },
            free={
                each: self._pick(self._number(), {"x": self._number()}, [self._number()])
                for each in self._names()
            },
            limit=self._pick(1, "2", "3"),
        )

    def _routes(self) -> list[dict[str, Any]]:
        keys = [(1, None), (1, "UDP"), (2, None), (2, "TCP")]
        chosen = self._chance.sample(keys, self._number())
        found = {}
        for port, protocol in chosen:
            item: dict[str, Any] = {"port": port}
            if protocol is not None:
                item["protocol"] = protocol
            backend = self._some(host=self._name(), path=self._name())
            item |= self._some(backend=backend)
            found[port, protocol or "TCP"] = item
        return list(found.values())

    # Built-in kinds.

    def _config_map(self, step: int) -> DifferentialRequest:
        data = {each: self._name() for each in self._names()}
        return self._builtin(step, "configmaps", "ConfigMap", data and {"data": data})

    def _secret(self, step: int) -> DifferentialRequest:
        data = {each: self._pick("YQ==", "Yg==") for each in self._names()}
        return self._builtin(step, "secrets", "Secret", data and {"data": data})

    def _service_account(self, step: int) -> DifferentialRequest:
        content = self._some(
            secrets=[{"name": each} for each in self._names()],
            imagePullSecrets=[{"name": each} for each in self._names()],
            automountServiceAccountToken=self._pick(True, False),
        )
        content = {key: value for key, value in content.items() if value != []}
        return self._builtin(step, "serviceaccounts", "ServiceAccount", content)

    def _builtin(
        self, step: int, plural: str, kind: str, content: dict[str, Any]
    ) -> DifferentialRequest:
        body = {**self._object("v1", kind), **content}
        path = f"{self._core}/{plural}"
        if step == 0 and self._chance.random() < 0.5:
            return DifferentialRequest("POST", path, body, self._by())
        path = f"{path}/{self.name}"
        if self._chance.random() < 0.3:
            return DifferentialRequest("PATCH", path, content, self._by(), MERGE)
        return DifferentialRequest("PATCH", path, body, self._applying(), APPLY)

    # Values.

    def _object(self, version: str, kind: str, **content: Any) -> dict[str, Any]:
        metadata = self._some(
            labels={each: self._pick("x", "y") for each in self._names()},
            annotations={each: self._pick("x", "y") for each in self._names()},
            finalizers=[f"example.com/{each}" for each in self._names()],
            share=0.2,
        )
        metadata["name"] = self.name
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}

    def _by(self) -> tuple[tuple[str, str], ...]:
        return (("fieldManager", self._pick(*MANAGERS)),)

    def _applying(self) -> tuple[tuple[str, str], ...]:
        force = (("force", "true"),) if self._chance.random() < 0.4 else ()
        return self._by() + force

    def _some(self, share: float = 0.35, **fields: Any) -> dict[str, Any]:
        return {key: value for key, value in fields.items() if self._chance.random() < share}

    def _pick(self, *options: Any) -> Any:
        return self._chance.choice(options)

    def _name(self) -> str:
        return str(self._pick("a", "b", "c"))

    def _names(self) -> list[str]:
        return self._chance.sample(["a", "b", "c"], self._chance.choice([0, 1, 1, 2, 2, 3]))

    def _number(self) -> int:
        return self._chance.randint(0, 2)


def comparable(code: int, answer: Any) -> Any:
    """What must be the same on two servers, managed fields included."""
    if not isinstance(answer, dict):
        return code, answer
    if answer.get("kind") == "Status":
        details = answer.get("details") or {}
        causes = [
            (one.get("field"), one.get("reason"), one.get("message"))
            for one in details.get("causes") or []
        ]
        return code, answer.get("reason"), sorted(causes, key=str)
    metadata = {key: value for key, value in answer["metadata"].items() if key not in _DIFFERENT}
    entries = [{**each, "time": "time" in each} for each in metadata.pop("managedFields", [])]
    entries.sort(key=lambda each: (each["manager"], each["operation"], each.get("subresource", "")))
    return code, {**answer, "metadata": metadata}, entries


_DIFFERENT = ("uid", "resourceVersion", "creationTimestamp", "generation")


def is_known(ours: tuple[int, Any], real: tuple[int, Any]) -> bool:
    """Whether ours differs on purpose. The real server writes null in place of an object whose last
    field it removes though the object itself is stated, and then refuses that; here it is empty."""
    code, answer = real
    if code == 422 and ours[0] == 200:
        return 'must be of type object: "null"' in answer["message"]
    return code == 500 and 400 <= ours[0] < 500
