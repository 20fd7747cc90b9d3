"""``config`` and ``secrets``, and that no command shows the value of a Secret."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from datum_compute.api import core
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from tests.support.cli.session import CliSession, cli_session

PLANTED = "s3cr3t-planted-value"
ENCODED = base64.b64encode(PLANTED.encode()).decode()
DEPLOY = "deploy api --image=a/api:1 --city=DFW"


@pytest.fixture(scope="module")
def platform() -> Iterator[CliSession]:
    with cli_session("DFW") as here:
        yield here


def secret_data(here: CliSession, name: str) -> dict[str, bytes]:
    found = here.act(here.client().get(core.SECRETS, name, "default"))
    return {key: base64.b64decode(value) for key, value in values(found.data).items()}


def test_no_command_shows_the_value_of_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(PLANTED)
    formats = ("table", "wide", "json", "yaml", "name")
    lines = [
        *(f"secrets set keys token={PLANTED} -o {wanted}" for wanted in formats),
        f"secrets set keys --from-file {file} --dry-run -o json",
        f"secrets set keys 'a b={PLANTED}'",
        *(f"secrets list -o {wanted}" for wanted in formats),
        f"{DEPLOY} --env-from=secret/keys --env-secret=T=keys:token --mount=secret/keys:/k -o json",
        "deploy api --roll-on-config-change -o yaml",
        f"secrets set keys token={PLANTED}2 -o json",
        *(f"{verb} api -o {wanted}" for verb in ("status", "why") for wanted in formats),
        "workloads describe api",
        "workloads describe api -o json",
        "instances describe api-default-dfw-0 -o json",
        "logs api",
        "rollout history api -o json",
        "rollout history api --revision 1 -o json",
        "__complete secrets unset ''",
        "__complete deploy --env-from ''",
        *(f"secrets unset keys token --dry-run -o {wanted}" for wanted in formats),
        "secrets unset keys nosuch",
        "secrets unset keys --yes -o json",
        f"{DEPLOY} --env DB_PASSWORD={PLANTED}",
        "rollout history api",
        "rollout undo api --yes",
    ]
    with cli_session("DFW") as here:
        applied = {"kubectl.kubernetes.io/last-applied-configuration": ENCODED}
        body = {"metadata": {"name": "keys", "annotations": applied}}
        here.act(here.client().create(core.SECRETS, body, "default"))
        shown = {line: here.run(line) for line in lines}
        for typed in (f"{PLANTED}\n", f"token={PLANTED}\n{PLANTED}\n"):
            shown[typed] = here.run("secrets set keys -", stdin=typed)

    leaks = [
        line
        for line, result in shown.items()
        for text in (result.out + result.err,)
        if PLANTED in text or ENCODED in text
    ]
    assert leaks == []
    assert sum(result.code == 0 for result in shown.values()) > 30


def test_values_come_from_arguments_files_and_stdin(platform: CliSession, tmp_path: Path) -> None:
    here = platform
    (tmp_path / "key.pem").write_bytes(b"\x00\xff")
    file = shlex.quote(str(tmp_path / "key.pem"))
    # Values may follow flags.
    line = f"secrets set many a=1 --from-file {file} --from-file other={file} --yes b=x=y"
    assert here.run(line).code == 0
    assert here.run("secrets set many c", stdin="typed\n").code == 0
    assert here.run("secrets set many -", stdin="# no\n d =e\n\n").code == 0
    assert secret_data(here, "many") == {
        "a": b"1",
        "b": b"x=y",
        "c": b"typed",
        "d": b"e",
        "key.pem": b"\x00\xff",
        "other": b"\x00\xff",
    }


def test_data_that_is_too_large_is_to_be_split(platform: CliSession, tmp_path: Path) -> None:
    (tmp_path / "half").write_bytes(b"x" * 150 * 1024)
    half = shlex.quote(str(tmp_path / "half"))

    refused = platform.run(f"config set large --from-file a={half} --from-file b={half}")

    assert refused.err.splitlines()[-1] == (
        "Try:  put part of it in another ConfigMap, or in the image"
    )


def test_a_key_of_a_config_map_moves_between_text_and_binary(
    platform: CliSession, tmp_path: Path
) -> None:
    here = platform
    file = tmp_path / "a"
    file.write_bytes(b"\xff")
    for command, text, binary in (
        ("config set moved a=1", {"a": "1"}, {}),
        (f"config set moved --from-file {file}", {}, {"a": "/w=="}),
        ("config set moved a=2", {"a": "2"}, {}),
    ):
        assert here.run(command).code == 0
        obj = here.run("config show moved -o json").json["object"]
        assert (obj.get("data") or {}, obj.get("binaryData") or {}) == (text, binary)


def test_what_is_changed_meanwhile_is_kept(platform: CliSession) -> None:
    here = platform
    assert here.run("config set shared a=1 b=1").code == 0
    patch = merge({"data": {"b": "2"}})
    here.act(here.client().patch(core.CONFIG_MAPS, "shared", patch, "default"))
    assert here.run("config set shared a=2").code == 0
    assert here.run("config show shared -o json").json["data"] == {"a": "2", "b": "2"}


def test_a_credential_of_a_registry_gets_its_type(platform: CliSession) -> None:
    here = platform
    assert here.run("secrets set registry .dockerconfigjson={}").code == 0
    [found] = [each for each in here.run("secrets list -o json").json if each["name"] == "registry"]
    assert found["type"] == "kubernetes.io/dockerconfigjson"


def test_objects_of_others_are_neither_listed_nor_changed(platform: CliSession) -> None:
    here = platform
    assert here.run("deploy owned --image=a:1 --city=DFW").code == 0
    name = "compute.datumapis.com-revision-history.owned"
    assert name not in here.run("config list").out
    for command in (f"config set {name} a=1", f"config unset {name} --yes"):
        refused = here.run(command)
        assert (refused.code, "belongs to Workload" in refused.err) == (6, True)


def test_a_wait_ends_when_a_change_says_who_uses_the_object(platform: CliSession) -> None:
    here = platform
    deploy = "deploy user --image=a:1 --city=DFW --env-from=config/used --no-wait"
    assert "secrets set" not in here.run(deploy).err
    created = here.run("config set used a=1")
    assert "Used by user. Instances that wait for it start" in created.err
    here.wait(5)
    changed = here.run("config set used a=2")
    assert "Running instances keep the old values until they restart" in changed.err
    assert "restart user" in changed.err
    assert here.run("config set used a=2 -o json").json["usedBy"] == ["user"]


def test_names_of_data_are_completed(platform: CliSession) -> None:
    here = platform
    assert here.run("config set complete-me a=1").code == 0
    assert here.run("secrets set complete-keys a=1").code == 0
    for words, wanted in (
        ("config show complete", "complete-me"),
        ("secrets unset complete", "complete-keys"),
        ("deploy --env-from=config/complete", "--env-from=config/complete-me"),
        ("deploy --pull-secret complete", "complete-keys"),
    ):
        lines = here.run(f"__complete {words}").out.splitlines()
        assert [line.partition("\t")[0] for line in lines] == [wanted, ":4"]


@pytest.mark.parametrize(("size", "shown"), [(1, "1 byte"), (2, "2 bytes"), (3, "3 bytes")])
def test_a_binary_value_is_shown_with_its_size(
    platform: CliSession, tmp_path: Path, size: int, shown: str
) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"\xff" * size)
    assert platform.run(f"config set sized --from-file {file}").code == 0

    assert f"(binary, {shown})" in platform.run("config show sized").out


def test_values_that_no_running_instance_has_need_no_restart(platform: CliSession) -> None:
    here = platform
    here.run("config set lacked a=1")
    plan = here.run("deploy lacking --image=a/api:1 --city=DFW --env-config=B=lacked:b")
    assert plan.code == 3
    assert 'New instances fail to start: ConfigMap "lacked" has no key b' in plan.err

    changed = here.run("config set lacked b=2").err

    assert "Used by lacking. No instance of lacking is ready; those that start" in (changed)
    assert "restart" not in changed
    here.wait(30)
    assert "Available" in here.run("status lacking").out
    changed = here.run("config set lacked b=3").err
    assert "Used by lacking. Running instances keep the old values until they restart." in changed
    assert "restart lacking" in changed
    here.run("destroy lacking --yes")
