"""Screens of commands that read, scene by scene, on a platform with real controllers.

Each scene is a function that runs commands and returns the transcript; a test compares the
transcripts with the files in ``cli/``. After an intended change, write them again and read the
difference::

    python -m tests.support.cli.read_screens
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client.protocol import merge
from tests.support.cli.session import CliSession, cli_session, shorten_transcript
from tests.support.paths import GOLDEN
from tests.support.simulation.platform import workload

FILES = GOLDEN / "read_screens"
FORMATS = ("table", "wide", "json", "yaml", "name")

Scene = Callable[[CliSession], Iterator[str]]

IMAGE = "registry.example/acme/api:1.4.2"
DEPLOY = f"deploy api --image={IMAGE} --city=DFW,LHR --min=2 --port=8080"


@dataclass(frozen=True)
class ReadScene:
    """A scene, and the session it needs."""

    play: Scene
    cities: tuple[str, ...] = ("DFW", "LHR")
    grant: tuple[tuple[str, int], ...] = ()

    def session(self) -> AbstractContextManager[CliSession]:
        return cli_session(*self.cities, grant=dict(self.grant))

    def transcript(self, seen: list[dict[str, Any]] | None = None) -> str:
        """``seen`` takes the Workloads as they are after each command."""
        with self.session() as here:
            here.seen = seen
            return "\n".join(self.play(here))


def run_commands(here: CliSession, *lines: str) -> Iterator[str]:
    for line in lines:
        yield shorten_transcript(here.run(line), line)


def in_every_format(here: CliSession, *lines: str) -> Iterator[str]:
    for line in lines:
        for wanted in FORMATS:
            yield from run_commands(here, line if wanted == "table" else f"{line} -o {wanted}")
        yield from run_commands(here, f"{line} --no-headers")


def manifest(name: str, **annotations: str) -> dict[str, Any]:
    """A workload with annotations for the simulated provider."""
    body = workload(IMAGE, 2)
    body["metadata"]["name"] = name
    body["spec"]["template"]["metadata"] = {
        "annotations": {
            f"simulated.compute.datumapis.com/{key.replace('_', '-')}": value
            for key, value in annotations.items()
        }
    }
    return body


def deployed_from_file(here: CliSession, body: dict[str, Any], flags: str = "") -> Iterator[str]:
    """``deploy -f -``, with the manifest on stdin."""
    line = f"deploy -f -{flags}"
    result = here.run(line, stdin=json.dumps(body))
    yield shorten_transcript(result, line).replace("-f -", "-f workload.yaml", 1)


def a_healthy_workload(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(here, DEPLOY)
    here.wait_until(100)
    yield from in_every_format(
        here,
        "status api",
        "workloads",
        "workloads describe api",
        "instances",
        "instances describe api-default-dfw-0",
        "rollout status api",
        "rollout status api --no-wait",
        "why api",
        "why api-default-lhr-1",
        "quota",
        "cities",
        "instance-types",
        "version",
    )


def filters_apply_to_every_format(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(
        here,
        f"{DEPLOY} --no-wait",
        f"deploy web --image={IMAGE} --city=DFW",
    )
    here.wait_until(100)
    for wanted in ("table", "json", "yaml", "name"):
        yield from run_commands(
            here,
            f"instances --workload web -o {wanted}",
            f"instances --city lhr -o {wanted}",
            f"instances -l compute.datumapis.com/instance-index=1 -o {wanted}",
            f"workloads --city LHR -o {wanted}",
            f"workloads --health available -o {wanted}",
        )
    yield from run_commands(
        here, "instances --workload web --city LHR", "workloads --health degraded"
    )


def writing(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(here, f"{DEPLOY} --dry-run", f"{DEPLOY} --no-wait -o name")
    here.wait_until(20)
    yield from run_commands(
        here,
        DEPLOY,
        "deploy api --image=registry.example/acme/api:1.5.0 --env=LOG_LEVEL=debug",
        "scale api --min 3 -o json",
        "scale api --min 3",
        "scale api --min 1",
        "destroy api",
        "destroy api --yes",
        "destroy api --yes",
    )
    for wanted in ("wide", "json", "yaml", "name"):
        yield from run_commands(here, f"{DEPLOY} -o {wanted}", f"destroy api --yes -o {wanted}")


def nothing_found(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(
        here,
        "workloads",
        "workloads -o json",
        "workloads -o yaml",
        "workloads -o name",
        "instances",
        "instances -o json",
        "instances --city LHR",
        "instances -l a=b",
        "workloads --health degraded",
        "quota --constrained",
        "logs",
        "status nosuch",
        "status nosuch -o json",
        "why nosuch",
        "workloads describe nosuch",
        "instances describe nosuch",
        "rollout status nosuch",
        "rollout status nosuch --no-wait",
        "scale nosuch --min 2",
        "destroy nosuch --yes",
        "logs nosuch",
    )


def show_everything(here: CliSession, name: str, instance: str) -> Iterator[str]:
    """Everything that explains what is wrong, in every format where it differs."""
    yield from run_commands(here, "workloads", "instances", f"workloads describe {name}")
    yield from in_every_format(here, f"status {name}", f"why {name}")
    yield from run_commands(
        here,
        f"instances describe {instance}",
        f"why {instance}",
        f"rollout status {name} --no-wait",
        f"rollout status {name} --no-wait -o json",
        f"rollout status {name} --timeout 60s",
    )


def quota_exceeded(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(here, f"deploy api --image={IMAGE} --city=DFW --min=2")
    here.wait_until(22)  # the free quota is counted a moment later
    yield from run_commands(here, "deploy api --city=DFW,LHR")
    here.wait_until(100)
    yield from show_everything(here, "api", "api-default-lhr-1")
    yield from in_every_format(here, "quota", "quota --constrained")


def image_unavailable(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(here, DEPLOY)
    yield from deployed_from_file(here, manifest("api", fail="ImageUnavailable"))
    here.wait_until(100)
    yield from show_everything(here, "api", "api-default-lhr-1")


def crashing(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from deployed_from_file(here, manifest("api", crash_after_seconds="60"))
    here.wait_until(130)
    yield from show_everything(here, "api", "api-default-dfw-0")
    yield from run_commands(here, "logs api", "logs api --tail 1 --since 10m --city DFW")


def configuration_error(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from deployed_from_file(here, manifest("api", start_seconds="soon"))
    here.wait_until(100)
    yield from show_everything(here, "api", "api-default-dfw-0")


def missing_data(here: CliSession) -> Iterator[str]:
    """A Secret that does not exist; it is created, and everything starts."""
    here.wait_until(10)
    body = manifest("api")
    [container] = body["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"]
    container["envFrom"] = [{"secretRef": {"name": "keys"}}]
    yield from deployed_from_file(here, body, " --timeout 60s")
    here.wait_until(150)
    yield from run_commands(
        here,
        "status api",
        "instances",
        "why api",
        "why api-default-dfw-0",
        "instances describe api-default-dfw-0",
    )
    secret = {"metadata": {"name": "keys"}, "data": {"token": "eA=="}}
    here.act(here.client().create(core.SECRETS, secret, "default"))
    here.wait_until(200)
    yield from run_commands(here, "status api")


KEYS_SECRET = {"metadata": {"name": "keys"}, "data": {"token": "cGxhbnRlZC1zM2NyM3Q="}}
DEPLOY_DATA = f"deploy api --image={IMAGE} --city=DFW --env-secret=TOKEN=keys:token"


def data_in_use(here: CliSession) -> Iterator[str]:
    """A key that is missing, a source that is deleted and one that changes while in use."""
    here.wait_until(10)
    yield from run_commands(
        here,
        "secrets set keys other=1",
        f"{DEPLOY_DATA} --timeout 60s",
        "why api",
        "why api -o json",
        "secrets set keys token=2",
    )
    here.wait_until(150)
    yield from run_commands(here, "why api", "secrets unset keys --yes")
    here.wait_until(160)
    yield from run_commands(
        here, "status api", "workloads", "instances", "why api", "why api-default-dfw-0"
    )
    yield from run_commands(here, "secrets set keys token=3")
    here.wait_until(170)
    yield from run_commands(
        here,
        "secrets set keys token=4",
        "why api",
        "deploy api --roll-on-config-change",
    )
    here.wait_until(300)
    yield from run_commands(here, "secrets set keys token=5", "rollout history api")


def data_that_is_not_delivered(here: CliSession) -> Iterator[str]:
    """Too large, not readable for the platform, and optional."""
    here.wait_until(10)
    large = {"metadata": {"name": "settings"}, "data": {"text": "x" * 300_000}}
    here.act(here.client().create(core.CONFIG_MAPS, large, "default"))
    yield from run_commands(
        here, f"deploy big --image={IMAGE} --city=DFW --mount=config/settings:/etc/app --no-wait"
    )
    here.wait_until(60)
    yield from run_commands(here, "status big", "instances", "why big")
    hub = here.client("hub")
    spaces = here.act(hub.list(core.NAMESPACES)).items
    [where] = [each.name for each in spaces if each.name.startswith("ns-")]
    here.act(hub.create(core.SECRETS, KEYS_SECRET, where))
    here.act(here.client().create(core.SECRETS, KEYS_SECRET, "default"))
    yield from run_commands(here, f"{DEPLOY_DATA} --no-wait")
    here.wait_until(120)
    yield from run_commands(here, "status api", "why api")
    body = manifest("web")
    [container] = body["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"]
    container["envFrom"] = [{"configMapRef": {"name": "extra", "optional": True}}]
    yield from deployed_from_file(here, body, "")
    yield from run_commands(here, "why web")


def slow_to_start(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from deployed_from_file(here, manifest("api", start_seconds="300"), " --timeout 90s")
    yield from show_everything(here, "api", "api-default-dfw-0")


def asleep(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(here, f"{DEPLOY} --sleep-after=30s")
    here.wait_until(100)
    yield from run_commands(
        here,
        "status api",
        "instances",
        "why api",
        "why api-default-dfw-0",
        "instances describe api-default-dfw-0",
        "deploy api --sleep-after=never --dry-run",
        "deploy api --sleep-after=soon",
        "deploy api --sleep-after=5m --port=port-8080- --dry-run",
    )


def network_not_ready(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(here, f"{DEPLOY} --no-wait")
    while "ProvisioningNetwork" not in here.run("status api -o json").out:
        here.wait(0.001)
        assert here.loop.time() < 20
    yield from run_commands(
        here,
        "status api",
        "why api",
        "instances",
        "workloads",
        "rollout status api --no-wait",
    )


def network_not_found(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    body = manifest("api")
    body["spec"]["template"]["spec"]["networkInterfaces"] = [{"network": {"name": "private"}}]
    yield from deployed_from_file(here, body)
    network = {"metadata": {"name": "private"}, "spec": {"ipam": {"mode": "Auto"}}}
    here.act(here.client().create(networking.NETWORKS, network, "default"))
    yield from deployed_from_file(here, body, " --no-wait")
    here.wait_until(20)
    here.act(here.client().delete(networking.NETWORKS, "private", "default"))
    here.wait_until(40)
    yield from run_commands(
        here,
        "workloads",
        "status api",
        "status api -o json",
        "workloads describe api",
        "why api",
        "why api -o json",
        "rollout status api",
    )


def no_cell_for_the_city(here: CliSession) -> Iterator[str]:
    here.act(_open_city(here, "SYD"))
    here.wait_until(10)
    yield from run_commands(
        here,
        "cities -o wide",
        f"deploy api --image={IMAGE} --city=XYZ",
        f"deploy api --image={IMAGE} --city=DFW,SYD",
    )
    here.wait_until(100)
    yield from show_everything(here, "api", "api-default-dfw-0")


async def _open_city(here: CliSession, city: str) -> None:
    """A location that the project may use, in a city without a cell."""
    topology = {"topology.datum.net/city-code": city}
    name = city.lower()
    await here.client().create(
        networking.LOCATION_BINDINGS,
        {
            "metadata": {"name": name},
            "spec": {"locationRef": {"name": name}, "topology": topology},
        },
    )
    await _set_available(here, name, "True")


async def _set_available(here: CliSession, name: str, status: str) -> None:
    condition = {
        "type": "Available",
        "status": status,
        "reason": "Opened" if status == "True" else "Withdrawn",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await here.client().patch(
        networking.LOCATION_BINDINGS,
        name,
        merge({"status": {"conditions": [condition]}}),
        subresource="status",
    )


def a_city_that_is_served_no_longer(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(here, f"{DEPLOY} --no-wait")
    here.wait_until(20)
    here.act(_set_available(here, "lhr", "False"))
    yield from run_commands(here, "cities", "status api")
    here.act(here.client().delete(compute.WORKLOAD_DEPLOYMENTS, "api-default-lhr", "default"))
    here.wait_until(100)
    yield from run_commands(
        here,
        "workloads",
        "status api",
        "why api",
        "rollout status api",
        "deploy api --city=DFW,LHR --min=3",
    )


def a_stale_cell(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(here, DEPLOY)
    here.platform.partitions.disconnect("lhr")
    here.wait_until(900)
    yield from show_everything(here, "api", "api-default-lhr-0")
    for wanted in ("table", "json"):
        yield from run_commands(
            here, f"cities -o {wanted}", f"instances -o {wanted}", f"workloads -o {wanted}"
        )
    yield from run_commands(
        here,
        "deploy api --image=registry.example/acme/api:1.5.0 --timeout 45s",
        "status api",
        "destroy api --yes --timeout 20s",
    )


def two_placements_in_one_city(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    body = manifest("api", fail="ImageUnavailable")
    placement = body["spec"]["placements"][0]
    body["spec"]["placements"] = [
        {**placement, "name": "blue", "cityCodes": ["DFW"]},
        {**placement, "name": "green", "cityCodes": ["DFW"]},
    ]
    here.act(here.client().create(compute.WORKLOADS, body, "default"))
    here.wait_until(30)
    yield from run_commands(here, "status api", "workloads", "why api", "instances")


def what_is_refused(here: CliSession) -> Iterator[str]:
    here.wait_until(10)
    yield from run_commands(here, DEPLOY)
    image = f"--image={IMAGE}"
    yield from run_commands(
        here,
        "fly",
        "status",
        "status Bäd",
        "status api -o xml",
        "instances -o xml",
        "workloads --health fine",
        "workloads describe",
        "rollout",
        "rollout cancel api",
        "logs --tail few",
        "logs --since soon",
        "completion tcsh",
        "deploy",
        "deploy new",
        f"deploy new {image}",
        f"deploy new {image} --city=XYZ",
        f"deploy new {image} --city=DFW --network=private",
        f"deploy new {image} --city=DFW --min=0",
        "deploy api --image=",
        "deploy api '--image=a b'",
        "deploy api --city=",
        "deploy api --env=LOG",
        "deploy api --port=http",
        "deploy api --port=80 --port=80",
        "deploy api --network=Bäd",
        "deploy api --instance-type=",
        "deploy api --timeout=soon",
        "deploy -f nosuch.yaml",
        "deploy api -f nosuch.yaml",
        "scale api",
        "scale api --min 0",
        "scale api --min 2 --placement other",
        "destroy api",
        "instances -l a=(",
        "instances --token wrong",
        "instances --token wrong -o json",
        "workloads --project nosuch",
    )
    typo = manifest("api")
    typo["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["imge"] = "x"
    yield from deployed_from_file(here, typo)


HEAD = "apiVersion: compute.datumapis.com/v1alpha\nkind: Workload\nmetadata: {name: api}\n"

FAULTY_FILES = {
    "nothing": "",
    "text": "just text",
    "half of it": "{",
    "another kind": "apiVersion: v1\nkind: Pod\nmetadata: {name: api}",
    "no name": HEAD.replace("{name: api}", "{}") + "spec: {}",
    "a bad name": HEAD.replace("name: api", "name: A_B") + "spec: {}",
    "another namespace": HEAD.replace("name: api", "name: api, namespace: mine") + "spec: {}",
    "no spec": HEAD,
    "no placements": HEAD + "spec: {template: {}}",
    "a placement that is text": HEAD + "spec: {placements: [x], template: {}}",
    "a city that is a number": HEAD + "spec: {placements: [{cityCodes: [5]}], template: {}}",
    "no template": HEAD + "spec: {placements: []}",
    "a network without a name": HEAD
    + "spec: {placements: [], template: {spec: {networkInterfaces: [{network: {}}]}}}",
    "an interface that is text": HEAD
    + "spec: {placements: [], template: {spec: {networkInterfaces: [x]}}}",
    "a key that is a number": "1: 2",
    "a number that is none": "a: .nan",
    "a key that is a list": "? [a]\n: b",
    "too deep": "[" * 100 + "]" * 100,
    "too much": "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
    + "\n".join(
        f"{n}: &{n} [{','.join([f'*{m}'] * 10)}]" for m, n in zip("abcde", "bcdef", strict=True)
    ),
}


def files_that_are_refused(here: CliSession) -> Iterator[str]:
    """All of it before any request."""
    for what, text in FAULTY_FILES.items():
        result = here.run("deploy -f -", stdin=text)
        yield result.transcript.replace("-f -", f"-f {what.replace(' ', '-')}.yaml", 1)
    good = json.dumps(manifest("api"))
    result = here.run("deploy -f -", stdin=f"{good}\n---\n{good}")
    yield result.transcript.replace("-f -", "-f the-same-twice.yaml", 1)


SCENES: dict[str, ReadScene] = {
    "healthy": ReadScene(a_healthy_workload),
    "filters": ReadScene(filters_apply_to_every_format),
    "writing": ReadScene(writing),
    "nothing-found": ReadScene(nothing_found),
    "quota-exceeded": ReadScene(quota_exceeded, grant=(("instances", 3),)),
    "image-unavailable": ReadScene(image_unavailable),
    "crashing": ReadScene(crashing),
    "configuration-error": ReadScene(configuration_error),
    "missing-data": ReadScene(missing_data),
    "data-in-use": ReadScene(data_in_use),
    "data-not-delivered": ReadScene(data_that_is_not_delivered),
    "slow-to-start": ReadScene(slow_to_start),
    "asleep": ReadScene(asleep),
    "network-not-ready": ReadScene(network_not_ready),
    "network-not-found": ReadScene(network_not_found),
    "no-cell-for-the-city": ReadScene(no_cell_for_the_city),
    "city-not-served": ReadScene(a_city_that_is_served_no_longer),
    "stale-cell": ReadScene(a_stale_cell),
    "refused": ReadScene(what_is_refused),
    "refused-files": ReadScene(files_that_are_refused),
    "two-placements": ReadScene(two_placements_in_one_city),
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
