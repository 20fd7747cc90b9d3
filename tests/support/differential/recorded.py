"""Answers of a real server, recorded, and how an answer is compared with one.

What always differs between two servers is taken out first: uids, revisions, times, and who manages
which field. Of a refusal the code, the reason, the object and the causes are compared, not the
words.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from tests.support.differential.raw_cases import (
    DEFINITIONS,
    NAMESPACE,
    WIDGETS,
    RawCase,
    definition,
)

DIRECTORY = Path(__file__).parent / "answers"
"""What a real kube-apiserver answered, and ``differences.json``: why ours differs."""

_ERASED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "continue", "selfLink")


class RawSide:
    """One server."""

    def __init__(self, server: str, prefix: str, token: str, tls: ssl.SSLContext) -> None:
        url = urlsplit(server)
        self._connection = http.client.HTTPSConnection(
            str(url.hostname), int(url.port or 0), timeout=60, context=tls
        )
        self._prefix = prefix
        self._token = token
        self._known: dict[str, Mapping[str, str]] = {}

    def close(self) -> None:
        self._connection.close()

    def prepare(self) -> None:
        """The namespace and the kind of the cases."""
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self.send(RawCase("", "POST", "/api/v1/namespaces", space))
        self.send(RawCase("", "POST", DEFINITIONS, definition()))
        for _ in range(2000):  # a real server serves a new kind a little later
            if self.send(RawCase("", "GET", WIDGETS))[0] == 200:
                return
        raise AssertionError("the kind is not served")

    def send(self, case: RawCase) -> tuple[int, Any]:
        body = case.body
        if body is not None and not isinstance(body, bytes):
            body = self._filled(case.path, json.dumps(body)).encode()
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Accept": case.accept,
            **dict(case.headers),
        }
        if body is not None:
            headers["Content-Type"] = case.content_type
        query = f"?{quote(case.query, safe='=&')}" if case.query else ""
        self._connection.request(case.method, self._prefix + case.path + query, body, headers)
        response = self._connection.getresponse()
        raw = response.read()
        answer = _decoded(raw)
        metadata = answer.get("metadata") if isinstance(answer, dict) else None
        if isinstance(metadata, dict) and metadata.get("uid"):
            self._known[metadata.get("name", "")] = metadata
        warning = response.getheader("Warning")
        return response.status, _with_warning(answer, warning)

    def _filled(self, path: str, text: str) -> str:
        name = path.removesuffix("/status").rpartition("/")[2]
        known = self._known.get(name, {})
        text = text.replace("@revision", known.get("resourceVersion", "1"))
        return text.replace("@uid", known.get("uid", "none"))


def _decoded(raw: bytes) -> Any:
    if not raw:
        return ""
    try:
        return json.loads(raw)
    except ValueError:
        pass
    try:
        return {"events": [json.loads(line) for line in raw.splitlines() if line]}
    except ValueError:
        return raw.decode("utf-8", "replace")


def _with_warning(answer: Any, warning: str | None) -> Any:
    """Whether there are warnings is compared, not their words."""
    if warning and isinstance(answer, dict):
        return {**answer, "@warned": warning.count('299 - "')}
    return answer


def comparable(code: int, answer: Any) -> Any:
    """What must be the same on both sides, as JSON values."""
    if not isinstance(answer, dict):
        text = str(answer).strip()
        return [code, text if code < 300 else ""]
    if answer.get("kind") == "Status":
        details = answer.get("details") or {}
        causes = {
            f"{each.get('field', '')} {each.get('reason', '')}".strip()
            for each in details.get("causes") or []
        }
        about = {key: details[key] for key in ("name", "group", "kind") if details.get(key)}
        found = [code, answer.get("reason", ""), about, sorted(causes)]
        return [*found, answer["@warned"]] if "@warned" in answer else found
    return [code, plain(answer)]


def plain(value: Any) -> Any:
    """The value without what always differs."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {key: plain(each) for key, each in value.items()}
    for key in [key for key, each in kept.items() if each is None and key != "object"]:
        del kept[key]  # a field without a value
    for key in ("storageVersionHash", "lastTransitionTime"):
        kept.pop(key, None)
    if "involvedObject" in kept or "regarding" in kept:
        kept = {key: each for key, each in kept.items() if each not in ("", {})}
    if kept.get("kind") == "Table":
        _plain_table(kept)
    metadata = kept.get("metadata")
    if isinstance(metadata, dict):
        for key in _ERASED:
            metadata.pop(key, None)
        if "deletionTimestamp" in metadata:
            metadata["deletionTimestamp"] = "set"
    if isinstance(kept.get("items"), list) and "kind" in kept:
        for item in kept["items"]:  # a real server leaves both out for its own kinds
            item.pop("kind", None)
            item.pop("apiVersion", None)
    return kept


_AGE = re.compile(r"\d+[smhd]|<unknown>|\d{4}-\d\d-\d\dT[\d:]+Z")


def _plain_table(table: dict[str, Any]) -> None:
    for column in table.get("columnDefinitions", ()):
        column.pop("description", None)
    for row in table.get("rows", ()):
        row["cells"] = [
            "age" if isinstance(cell, str) and _AGE.fullmatch(cell) else cell
            for cell in row["cells"]
        ]


def load(name: str) -> Any:
    return json.loads((DIRECTORY / name).read_text(encoding="utf-8"))


def store(name: str, content: Any) -> None:
    DIRECTORY.mkdir(exist_ok=True)
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (DIRECTORY / name).write_text(text, encoding="utf-8")


def run_raw(side: RawSide, cases: Iterable[RawCase]) -> dict[str, Any]:
    """The comparable answer to each case, in order."""
    side.prepare()
    return {case.name: comparable(*side.send(case)) for case in cases}


def differences(kind: str) -> dict[str, str]:
    """The cases in which ours differs on purpose or for now, each with its reason."""
    return {
        case: reason for reason, cases in load("differences.json")[kind].items() for case in cases
    }


MAX_SHARE = 0.05
"""Of the cases, how many may differ."""


def check_answers(kind: str, found: dict[str, Any]) -> None:
    """Compare with the recorded answers. A case that is said to differ must differ."""
    recorded, known = load(f"{kind}.json"), differences(kind)
    assert list(found) == list(recorded), "record the answers of a real server again"
    found = json.loads(json.dumps(found))
    differing = {case for case in found if found[case] != recorded[case]}
    unknown = [
        f"{case}\n  ours: {found[case]}\n  real: {recorded[case]}"
        for case in found
        if case in differing and case not in known
    ]
    assert not unknown, f"{len(unknown)} answers differ:\n" + "\n".join(unknown)
    assert not known.keys() - differing, "these are no longer different"
    assert len(known) < MAX_SHARE * len(recorded)
