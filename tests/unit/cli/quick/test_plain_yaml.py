"""What is read without the library is read as the library reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from datum_compute.cli.quick.plain_yaml import parse_plain_yaml
from datum_compute.client import kubeconfig

RENDERED = kubeconfig.render(
    server="https://127.0.0.1:7443/apis/x/v1/projects/demo/control-plane",
    ca_pem=b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n",
    token="secret-token_1",
    name="datum-compute-demo",
    user="local-admin",
)
KUBECTL = """\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTg==
    server: https://10.0.0.1:6443
  name: kind-one
- cluster:
    certificate-authority: /etc/ca.crt
    insecure-skip-tls-verify: true
    server: https://b.example.com
  name: two
contexts:
- context:
    cluster: kind-one
    namespace: default
    user: kind-one
  name: kind-one
current-context: kind-one
kind: Config
preferences: {}
users:
- name: kind-one
  user:
    client-certificate-data: LS0t
    client-key-data: LS0t
- name: two
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      args:
      - token
      - --region
      command: aws-iam-authenticator
      env: null
      interactiveMode: IfAvailable
      provideClusterInfo: false
"""


@pytest.mark.parametrize("text", [RENDERED, KUBECTL.replace("      - --region\n", "")])
def test_files_as_tools_write_them_are_read_without_the_library(text: str) -> None:
    found = parse_plain_yaml(text)

    assert found is not None
    assert found == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "- a\n- b",
        "a: 1",
        "a: 0x1f",
        "a: 1.5",
        "a: 2026-01-01",
        "a: 12:30:00",
        "a: yes",
        "a: No",
        "a: ~",
        "a: .inf",
        "a: 'x'",
        "a: |\n  b",
        "a: >\n  b",
        "a: &x b",
        "a: *x",
        "a: !!str b",
        "a: b # comment",
        "a: b c",
        "a: [b]",
        "a: {b: c}",
        'a: "b',
        'a: "b" c',
        r'a: "\ud83d\ude00"',
        r'a: "\x41"',
        "a: b\na: c",
        "? a\n: b",
        "a:\tb",
        "a: b\r\nc: d",
        "a: \N{SNOWMAN}",
        "a: b\n  c: d",
        "a:\n    b: c\n  d: e",
        "  a: b\nc: d",
        "- a: b\n   c: d",
        "a:\n- b\n - c",
        "a: b:",
        "yes: b",
        "---\na: b",
        "a: b\n---\nc: d",
        "a: b\n...",
        "<<: a",
        "a: b\n c",
    ],
)
def test_other_yaml_is_left_to_the_library(text: str) -> None:
    assert parse_plain_yaml(text) is None


WORDS = st.sampled_from(
    [
        "a",
        "B9",
        "x-y",
        "a.b/c",
        "https://h:1/p",
        "v1",
        "true",
        "false",
        "null",
        "True",
        "NO",
        "on",
        "y",
        "~",
        "-",
        "--",
        "-a",
        "1",
        "0o7",
        "1e3",
        ".5",
        ":a",
        "a:",
        "{}",
        "[]",
        "{a:",
        "[b,",
        "'c'",
        '"d"',
        '"e\\n"',
        '"\\u0041"',
        '"\\/"',
        "#",
        "&a",
        "*a",
        "!a",
        "|-",
        ">",
        "%a",
        "@a",
        "`a",
        "=",
        "<<",
    ]
) | st.text(st.sampled_from("ab1-:.#\"' /"), max_size=5)
LINES = st.builds(
    lambda indent, dash, key, value: " " * indent + dash + key + value,
    st.integers(0, 4),
    st.sampled_from(["", "", "- ", "-  ", "-", "- - "]),
    st.sampled_from(["", "a:", "b: ", "c:  ", "d", "a-b: ", "on: "]),
    WORDS | st.just(""),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=6).map("\n".join))
def test_plain_yaml_never_differs_from_the_library(text: str) -> None:
    found = parse_plain_yaml(text)
    if found is not None:
        assert _same(found, yaml.safe_load(text)), text


KEYS = st.from_regex(r"[a-z][a-z-]{0,6}", fullmatch=True)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.none() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_output_of_the_library_is_read_back_or_left_to_it(value: dict[str, Any]) -> None:
    found = parse_plain_yaml(yaml.safe_dump(value))

    assert found is None or _same(found, value)


def _same(left: Any, right: Any) -> bool:
    """Equal, types included: True is not 1."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def test_a_kubeconfig_of_ours_loads_without_the_library(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(RENDERED)
    program = (
        "import sys; from datum_compute.cli.quick.connect import load_kubeconfig\n"
        "from datum_compute.env import SystemEnvironment\n"
        f"connection = load_kubeconfig([{str(file)!r}], '', SystemEnvironment())\n"
        "print(connection.origin, 'yaml' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )

    assert done.stdout.split() == ["https://127.0.0.1:7443", "False"]
