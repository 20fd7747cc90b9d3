"""Screens of commands that write, scene by scene.

:mod:`tests.support.cli.read_screens` has those that read. After an intended change::

    python -m tests.support.cli.write_screens
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.services import v1alpha1 as services
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from tests.support.cli.read_screens import DEPLOY, IMAGE, in_every_format, manifest, run_commands
from tests.support.cli.session import CliSession, cli_session
from tests.support.paths import GOLDEN

FILES = GOLDEN / "write_screens"

NEWER = "registry.example/acme/api:1.5.0"


@dataclass(frozen=True)
class WriteScene:
    """A scene, and the session it needs."""

    play: Callable[[CliSession], Iterator[str]]
    settings: tuple[tuple[str, Any], ...] = ()
    grant: tuple[tuple[str, int], ...] = ()

    def transcript(self, seen: list[dict[str, Any]] | None = None) -> str:
        """``seen`` takes the Workloads as they are after each command."""
        with cli_session(
            "DFW", "LHR", grant=dict(self.grant) or None, **dict(self.settings)
        ) as here:
            here.seen = seen
            return "\n".join(self.play(here))


def history(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(here, f"{DEPLOY} --message 'the first one'", "rollout history api")
    here.wait_until(100)
    yield from run_commands(
        here, f"deploy api --image={NEWER} --env=LOG_LEVEL=debug", "scale api --min 3"
    )
    here.wait_until(200)
    placement = {
        "name": "default",
        "cityCodes": ["DFW"],
        "scaleSettings": {"minReplicas": 1},
    }
    patch = merge({"spec": {"placements": [placement]}})
    here.act(here.client().patch(compute.WORKLOADS, "api", patch, "default"))
    here.wait_until(260)
    yield from run_commands(here, "rollout history api", "restart api --message 'it is slow'")
    here.wait_until(330)
    yield from run_commands(here, "rollout restart api --city DFW", "restart api --city LHR")
    yield from in_every_format(here, "rollout history api")
    yield from in_every_format(here, "rollout history api --revision 2")
    yield from run_commands(
        here,
        "rollout history api --revision 1",
        "rollout history api --limit 2",
        "rollout history api --revision 9",
        "rollout history api --revision first",
        "rollout history api --limit 0",
        "rollout history nosuch",
    )


def undo(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(here, DEPLOY, "rollout undo api --yes")
    here.wait_until(30)
    yield from run_commands(
        here, f"deploy api --image={NEWER}", "rollout undo api", "rollout undo api --yes"
    )
    here.wait_until(60)
    yield from run_commands(
        here,
        "rollout history api",
        "rollout undo api --to-revision 3 --yes",
        "rollout undo api --to-revision 2 --yes --message 'it was not that'",
        "status api",
        "rollout undo api --to-revision 9 --yes",
        "rollout undo nosuch --yes",
    )
    for wanted in ("json", "yaml", "name"):
        yield from run_commands(here, f"rollout undo api --yes -o {wanted}")
    yield from run_commands(here, "rollout undo api --yes --no-wait")
    here.wait_until(120)
    yield from run_commands(here, "restart api", "rollout undo api --yes")


def access(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from in_every_format(here, "access")
    here.act(here.client().delete(services.SERVICE_ENTITLEMENTS, "compute"))
    yield from run_commands(
        here,
        "access",
        "instances",
        "instances -o json",
        "access request --message 'for the shop'",
        "instances",
        "instances -o json",
    )
    here.wait_until(60)
    yield from run_commands(here, "access", "access -o json", "access request")
    yield from run_commands(here, "access request --wait --timeout 20s", "access request --wait")
    yield from run_commands(here, "instances", "access request -o json")
    patch = merge({"status": {"phase": "Rejected"}})
    entitlements = services.SERVICE_ENTITLEMENTS
    here.act(here.client().patch(entitlements, "compute", patch, subresource="status"))
    here.wait(1)
    yield from run_commands(here, "access", "instances", "access request")


def deploying(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    image = f"--image={IMAGE}"
    yield from run_commands(
        here,
        f"deploy api {image} --city=DFW --dry-run --exit-code",
        f"deploy api {image} --city=DFW --dry-run -o json",
        f"deploy api {image} --city=DFW --exit-code",
        f"deploy api {image} --city=DFW --instance-type=huge",
        f"deploy api {image} --city=XYZ --dry-run --exit-code",
        f"deploy api {image} --city=DFW --env=A=1 --port=http=8080 --label=team=web",
    )
    here.wait_until(40)
    yield from run_commands(
        here,
        f"deploy api {image} --dry-run --exit-code",
        "deploy api --env=A=2 --port=9090 --command=/bin/app --arg=-v --arg=serve",
        "deploy api --env=A- --port=http- --command=- --arg=- --label=team- --label=tier=1",
        "deploy api --label=tier=1",
        "deploy api --port=http-",
        "deploy api --port=web=9090",
        "deploy api --label=tier",
        "deploy api --min=4 --dry-run",
        "deploy api --add-city=LHR --env=DB_PASSWORD=hunter2",
        "deploy api --remove-city=DFW",
        "deploy api --remove-city=LHR --yes",
    )
    yield from run_commands(
        here,
        f"deploy web {image} --city=DFW --network=private",
        f"deploy web {image} --city=DFW --network=private --dry-run",
        f"deploy web {image} --city=XYZ --network=private --yes",
        f"deploy web {image} --city=DFW --network=private --yes",
    )
    body = manifest("web")
    body["metadata"]["labels"] = {"team": "web"}
    result = here.run("deploy -f - --no-wait", stdin=json.dumps(body))
    yield result.transcript.replace("-f -", "-f workload.yaml", 1)


def scaling(here: CliSession) -> Iterator[str]:
    """More instances than the quota has: the last one waits, and is not an old one."""
    here.wait_until(10)
    assert here.run("deploy api --image=a/api:1 --city=DFW").code == 0
    yield from run_commands(
        here,
        "scale api --min 3",
        "rollout status api --no-wait",
        "rollout status api --no-wait -o json",
        "deploy api --image=a/api:2 --timeout 20s",
    )


def waves(here: CliSession) -> Iterator[str]:
    """A rollout in waves, and the commands that steer it."""
    here.wait_until(10)
    yield from run_commands(
        here,
        "deploy api --image=a/api:1 --city=DFW,LHR --min=2 --waves=DFW,LHR --soak=60s"
        " --on-failure=undo",
        "deploy api --image=a/api:2 --no-wait",
    )
    here.wait(30)
    looks = ("rollout status api --no-wait", "status api", "why api", "workloads")
    yield from run_commands(here, *looks, "rollout history api")
    yield from run_commands(here, "rollout pause api", "rollout pause api", *looks)
    yield from in_every_format(here, "rollout status api --no-wait")
    yield from run_commands(here, "rollout resume api", "rollout resume api -o json")
    yield from run_commands(here, "rollout promote api", "rollout status api")
    yield from run_commands(
        here,
        "rollout promote api",
        "rollout abort api",
        "rollout skip api LHR",
        "rollout history api",
    )
    yield from run_commands(here, "deploy api --image=a/api:3 --gate=SmokeTestsPassed --no-wait")
    here.wait(100)
    yield from run_commands(here, *looks, "rollout abort api", "rollout abort api -o json")
    here.wait(10)
    yield from run_commands(here, "rollout status api", *looks, "rollout history api -o json")
    yield from run_commands(
        here,
        "rollout promote api",
        "rollout skip api LHR",
        "rollout undo api --yes",
        "deploy api --waves=none",
        "rollout pause api",
    )


def destroying(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(here, DEPLOY)
    here.platform.partitions.disconnect("lhr")
    here.wait_until(120)
    yield from run_commands(
        here,
        "destroy api --yes --timeout 20s",
        "workloads",
        "status api",
        "status api -o json",
        "why api",
    )
    here.platform.partitions.connect("lhr")
    here.wait_until(300)
    yield from run_commands(here, "workloads")


def replacing(here: CliSession) -> Iterator[str]:
    """A change that removes a city and adds another, whose instances fail at first."""

    def deploy(**fail: str) -> str:
        body = manifest("api", **fail)
        body["spec"]["placements"][0]["cityCodes"] = ["LHR"]
        result = here.run("deploy -f - --yes", stdin=json.dumps(body))
        return result.transcript.replace("-f -", "-f workload.yaml", 1)

    here.wait_until(10)
    assert here.run("deploy api --image=a/api:1 --city=DFW --min=2").code == 0
    yield deploy(fail="ImageUnavailable")
    here.wait_until(60)
    yield from run_commands(
        here,
        "status api",
        "status api -o json",
        "why api",
        "why api -o json",
        "workloads",
        "rollout status api --no-wait",
        "rollout status api --no-wait -o json",
    )
    yield deploy()
    yield from run_commands(here, "status api")


def formats(here: CliSession) -> Iterator[str]:
    """The output of commands that write, in every format for programs."""
    here.wait_until(10)
    assert here.run("deploy api --image=a/api:1 --city=DFW").code == 0
    assert here.run("deploy api --image=a/api:2").code == 0
    for number, wanted in enumerate(("table", "wide", "json", "yaml", "name"), 2):
        here.wait_until(number * 100)
        yield from run_commands(
            here,
            f"scale api --min {number} -o {wanted}",
            f"restart api -o {wanted}",
            f"rollout restart api --city DFW --no-wait -o {wanted}",
            f"rollout undo api --to-revision {1 + number % 2} --yes -o {wanted}",
            f"access request -o {wanted}",
        )


def data(here: CliSession) -> Iterator[str]:
    """ConfigMaps and Secrets, and workloads that name them."""
    here.wait_until(10)
    yield from run_commands(
        here,
        "config",
        "config set settings colour=blue size=3 --dry-run",
        "config set settings colour=blue size=3",
        "config set settings colour=red API_KEY=abc",
        "config set settings colour=red",
        "config show settings colour",
        "secrets set keys token=hunter2",
    )
    for typed, words in (("hunter3\n", "db"), ("a=1\n\n# b\nc=2\n", "-")):
        yield here.run(f"secrets set keys {words}", stdin=typed).transcript
    immutable = {"metadata": {"name": "fixed"}, "immutable": True, "data": {"a": "1"}}
    here.act(here.client().create(core.CONFIG_MAPS, immutable, "default"))
    flags = "--env-from=config/settings --env-secret=DB=keys:db --mount=secret/keys:/etc/keys"
    yield from run_commands(
        here,
        f"deploy api --image={IMAGE} --city=DFW {flags} --env=API_TOKEN=abc --pull-secret=registry"
        " --dry-run",
        f"deploy api --image={IMAGE} --city=DFW {flags} --env=API_TOKEN=abc",
        "deploy api --env-from=config/settings- --env-config=COLOUR=settings:colour"
        " --mount=secret/keys- --env-secret=API_TOKEN=keys:token --roll-on-config-change",
        "rollout history api",
        "rollout history api --revision 1",
        "rollout history api --revision 2",
    )
    here.wait_until(100)
    for command in ("config list", "secrets list", "config show settings"):
        yield from in_every_format(here, command)
    for wanted in ("table", "json", "yaml", "name"):
        yield from run_commands(
            here,
            f"config set settings size={len(wanted)} -o {wanted}",
            f"secrets set keys db={len(wanted)} -o {wanted}",
            f"secrets unset keys db --dry-run -o {wanted}",
        )
    yield from run_commands(
        here,
        "secrets unset keys a",
        "secrets unset keys a c --yes",
        "config set fixed a=2",
        "config unset fixed --yes",
    )


def stopping(here: CliSession) -> Iterator[str]:
    """A workload and a city are stopped, changed meanwhile, and started."""
    here.wait_until(10)
    yield from run_commands(here, DEPLOY, "stop api")
    here.wait_until(30 + 3 * 3600)
    yield from run_commands(here, "why api", "why api-default-dfw-0", "rollout status api")
    yield from in_every_format(here, "status api")
    yield from run_commands(
        here,
        "workloads",
        "workloads --health stopped",
        "instances",
        "instances describe api-default-dfw-0",
        "workloads describe api",
        "stop api",
        "start api --city DFW",
        f"deploy api --image={NEWER} --dry-run",
        f"deploy api --image={NEWER}",
        f"deploy api --image={NEWER}",
        "scale api --min 3",
        "scale api --min 3 --no-wait -o json",
        "restart api",
        "rollout undo api --to-revision 2 --yes",
        "rollout history api",
        "rollout status api --no-wait",
        "status api",
        "start api",
        "start api",
        "status api",
    )
    yield from run_commands(
        here,
        "stop api --city dfw",
        "status api",
        "status api -o json",
        "workloads",
        "why api",
        "scale api --min 1",
        "start api",
        "stop api --no-wait -o json",
    )
    here.wait(60)
    yield from run_commands(
        here,
        "start api -o json",
        "start api --city DFW",
        "stop api --city ORD",
        "stop nosuch",
        "stop",
        "stop api --timeout never",
    )
    marked = merge({"metadata": {"annotations": {compute.ANNOTATION_SUSPENDED: "yes"}}})
    here.act(here.client().patch(compute.WORKLOADS, "api", marked, "default"))
    here.wait(60)
    yield from run_commands(here, "status api", "resume api", "suspend api", "destroy api --yes")


def serving_http(here: CliSession) -> Iterator[str]:
    """A URL that is given, shown, opened, of one city, and removed."""
    here.wait_until(10)
    new = f"deploy api --image={IMAGE} --city=DFW,LHR"
    yield from run_commands(here, f"{new} --http-port 8080", "status api", "workloads")
    yield from run_commands(
        here,
        "workloads -o wide",
        "open api",
        "open api --city lhr",
        "open api --city IAD",
        "open nosuch",
        "deploy api --http-port 9090 -o json",
        "deploy api --no-http",
        "status api",
        "open api",
        "deploy api --http-port 0",
        "deploy api --http-port eighty",
        "deploy api --http-port 80 --no-http",
        "deploy api --http-port 8080 --no-wait",
        "stop api",
        "destroy api --yes -o json",
        f"{new} --http-port 8080",
        "destroy api --yes",
        f"{new}",
    )
    note = {"metadata": {"annotations": {compute.ANNOTATION_HTTP_PORT: "080"}}}
    refused = here.act(_refusal(here, note))
    yield f"$ kubectl annotate workload api {compute.ANNOTATION_HTTP_PORT}=080\n{refused}\n"


async def _refusal(here: CliSession, body: dict[str, Any]) -> str:
    try:
        await here.client().patch(compute.WORKLOADS, "api", merge(body), "default")
    except errors.Invalid as error:
        return error.detail
    return "accepted"


SCENES: dict[str, WriteScene] = {
    "stopping": WriteScene(stopping),
    "data": WriteScene(data),
    "formats": WriteScene(formats),
    "history": WriteScene(history),
    "undo": WriteScene(undo),
    "access": WriteScene(access, settings=(("activation_seconds", 120.0),)),
    "deploying": WriteScene(deploying, grant=(("instances", 3),)),
    "scaling": WriteScene(scaling, grant=(("instances", 2),)),
    "waves": WriteScene(waves),
    "destroying": WriteScene(destroying),
    "replacing": WriteScene(replacing),
    "http": WriteScene(serving_http, settings=(("router_port", 7480),)),
}


def regenerate(names: Sequence[str] = ()) -> None:
    FILES.mkdir(exist_ok=True)
    for name, setting in SCENES.items():
        if not names or name in names:
            (FILES / f"{name}.txt").write_text(setting.transcript(), encoding="utf-8")
            print(f"{name}.txt")


if __name__ == "__main__":
    import sys

    regenerate(sys.argv[1:])
