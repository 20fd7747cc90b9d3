"""ConfigMaps and Secrets: variables, files, credentials for pulls, and what is missing of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.decisions.references import PULL_KEY, entries_to_text
from datum_compute.providers.conformance.harness import (
    Body,
    Capability,
    Harness,
    PrivateImage,
    build_instance,
    create,
    expect,
    promise,
    read,
    remove,
    run,
    shell,
    wait_available,
    wait_failure,
)
from datum_compute.providers.conformance.processes import IDLE, wait_line

PROCESSES, LOGS = Capability.PROCESSES, Capability.LOGS
CONFIGURATION_ERROR = compute.REASON_CONFIGURATION_ERROR
PLANTED = "planted-value-9f3c"
"""A value that no report may show."""


async def put_config_map(cell: Harness, name: str, **data: str) -> None:
    await cell.client.create(
        core.CONFIG_MAPS, {"metadata": {"name": name}, "data": data}, cell.namespace
    )


async def put_secret(cell: Harness, name: str, data: Mapping[str, str], **more: Any) -> None:
    body = {"metadata": {"name": name}, "data": _encoded(data), **more}
    await cell.client.create(core.SECRETS, body, cell.namespace)


def _encoded(data: Mapping[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}


def variable(name: str, kind: str, of: str, key: str, **more: Any) -> Body:
    return {"name": name, "valueFrom": {f"{kind}KeyRef": {"name": of, "key": key, **more}}}


async def create_with_files(
    cell: Harness, name: str, script: str, source: Body, **mount: Any
) -> str:
    """An Instance with one volume, at ``/etc/data`` unless ``mount`` differs; its uid."""
    attachment = {"name": "data", "mountPath": "/etc/data", **mount}
    container = {**shell(f"{script}; {IDLE}"), "volumeAttachments": [attachment]}

    def change(body: Body) -> None:
        body["spec"]["volumes"] = [{"name": "data", **source}]

    found = await create(cell, name, container=container, change=change)
    return found.metadata.uid


def show_mode(path: str) -> str:
    """Prints the permissions of what a path leads to, in the letters of ``ls``."""
    return f'set -- $(ls -lL {path}); echo "{path.rsplit("/", 1)[-1]} $1"'


# Variables.


@promise(PROCESSES, LOGS)
async def variables_come_from_keys_of_config_maps_and_secrets(cell: Harness) -> None:
    value = "a=b 'c' $HOME"
    await put_config_map(cell, "settings", colour=value)
    await put_secret(cell, "keys", {"token": PLANTED})
    container = {
        **shell(f'echo "[$COLOUR][$TOKEN]"; {IDLE}'),
        "env": [
            variable("COLOUR", "configMap", "settings", "colour"),
            variable("TOKEN", "secret", "keys", "token"),
        ],
    }
    uid = (await create(cell, "keyed-0", container=container)).metadata.uid

    await wait_line(cell, uid, f"[{value}][{PLANTED}]")


@promise(PROCESSES, LOGS)
async def every_key_of_an_object_can_be_a_variable(cell: Harness) -> None:
    """With a prefix; of two with one name the later wins, and one that is named wins over all."""
    await put_config_map(cell, "settings", A="first", B="first", C="first")
    await put_secret(cell, "keys", {"B": "second", "C": "second"})
    container = {
        **shell(f'echo "$A $B $C $APP_A"; {IDLE}'),
        "env": [{"name": "C", "value": "own"}],
        "envFrom": [
            {"configMapRef": {"name": "settings"}},
            {"secretRef": {"name": "keys"}},
            {"prefix": "APP_", "configMapRef": {"name": "settings"}},
        ],
    }
    uid = (await create(cell, "all-keys-0", container=container)).metadata.uid

    await wait_line(cell, uid, "first second own first")


# Files.


@promise(PROCESSES, LOGS)
async def every_key_of_a_volume_is_a_file(cell: Harness) -> None:
    await put_config_map(cell, "settings", one="first", two="second")
    script = (
        f"echo $(ls /etc/data) $(cat /etc/data/one /etc/data/two); {show_mode('/etc/data/one')}"
    )
    uid = await create_with_files(cell, "files-0", script, {"configMap": {"name": "settings"}})

    await wait_line(cell, uid, "one two firstsecond")
    await wait_line(cell, uid, "one -rw-r--r--")


@promise(PROCESSES, LOGS)
async def files_have_the_mode_of_their_volume(cell: Harness) -> None:
    await put_secret(cell, "keys", {"token": PLANTED})
    source = {"secret": {"secretName": "keys", "defaultMode": 0o400}}
    script = f"cat /etc/data/token; echo; {show_mode('/etc/data/token')}"
    uid = await create_with_files(cell, "modes-0", script, source)

    await wait_line(cell, uid, PLANTED)
    await wait_line(cell, uid, "token -r--------")


@promise(PROCESSES, LOGS)
async def items_choose_keys_paths_and_modes(cell: Harness) -> None:
    await put_config_map(cell, "settings", one="first", two="second")
    items = [{"key": "two", "path": "deep/er/file", "mode": 0o440}]
    source = {"configMap": {"name": "settings", "items": items}}
    path = "/etc/data/deep/er/file"
    script = f"echo $(ls /etc/data) $(cat {path}); {show_mode(path)}"
    uid = await create_with_files(cell, "items-0", script, source)

    await wait_line(cell, uid, "deep second")
    await wait_line(cell, uid, "file -r--r-----")


@promise(PROCESSES, LOGS)
async def a_sub_path_is_mounted_alone(cell: Harness) -> None:
    """Beside what the image has in that directory, such as the shell."""
    await put_config_map(cell, "settings", one="first", two="second")
    source = {"configMap": {"name": "settings"}}
    mount = {"mountPath": "/bin/settings", "subPath": "two"}
    uid = await create_with_files(cell, "sub-path-0", "cat /bin/settings; echo", source, **mount)

    await wait_line(cell, uid, "second")


@promise(PROCESSES, LOGS)
async def files_of_a_volume_cannot_be_changed(cell: Harness) -> None:
    await put_config_map(cell, "settings", one="first")
    script = "(echo other > /etc/data/one) 2> /dev/null || echo refused; cat /etc/data/one; echo"
    uid = await create_with_files(cell, "fixed-0", script, {"configMap": {"name": "settings"}})

    await wait_line(cell, uid, "refused")
    await wait_line(cell, uid, "first")


@promise(PROCESSES, LOGS)
async def changed_data_is_there_after_a_restart(cell: Harness) -> None:
    await put_config_map(cell, "settings", colour="blue")
    container = {
        # More than once: a kubelet renews files beside the start of the container.
        **shell('while :; do echo "$COLOUR $(cat /etc/data/colour)"; sleep 1; done'),
        "env": [variable("COLOUR", "configMap", "settings", "colour")],
        "volumeAttachments": [{"name": "data", "mountPath": "/etc/data"}],
    }

    def change(body: Body) -> None:
        body["spec"]["volumes"] = [{"name": "data", "configMap": {"name": "settings"}}]

    uid = (await run(cell, "restarted-0", container=container, change=change)).metadata.uid
    await wait_line(cell, uid, "blue blue")
    newer = merge({"data": {"colour": "green"}})
    await cell.client.patch(core.CONFIG_MAPS, "settings", newer, cell.namespace)
    await cell.kill(uid, "app")

    await wait_line(cell, uid, "green green")
    await wait_available(cell, "restarted-0")


# What is missing.


@promise()
async def optional_data_may_be_missing(cell: Harness) -> None:
    await put_config_map(cell, "settings", colour="blue")
    container = {
        "env": [
            variable("A", "configMap", "no-settings", "colour", optional=True),
            variable("B", "configMap", "settings", "size", optional=True),
        ],
        "envFrom": [{"secretRef": {"name": "no-keys", "optional": True}}],
        "volumeAttachments": [
            {"name": "files", "mountPath": "/etc/files"},
            {"name": "items", "mountPath": "/etc/items", "subPath": "size"},
        ],
    }
    items = [{"key": "size", "path": "size"}]
    volumes = [
        {"name": "files", "secret": {"secretName": "no-keys", "optional": True}},
        {"name": "items", "configMap": {"name": "settings", "items": items, "optional": True}},
    ]

    def change(body: Body) -> None:
        body["spec"]["volumes"] = volumes

    await run(cell, "modest-0", container=container, change=change)


@promise()
async def a_missing_secret_of_a_volume_is_named(cell: Harness) -> None:
    await _expect_missing(cell, {"secret": {"secretName": "tls-keys"}}, "tls-keys")


@promise()
async def a_missing_config_map_of_a_volume_is_named(cell: Harness) -> None:
    await _expect_missing(cell, {"configMap": {"name": "settings"}}, "settings")


@promise()
async def a_missing_item_of_a_volume_is_named(cell: Harness) -> None:
    await put_config_map(cell, "settings", colour="blue")
    items = [{"key": "size", "path": "size"}]
    await _expect_missing(cell, {"configMap": {"name": "settings", "items": items}}, "size")


async def _expect_missing(cell: Harness, source: Body, words: str) -> None:
    uid = await create_with_files(cell, "needy-0", "true", source)
    state = await wait_failure(cell, "needy-0", CONFIGURATION_ERROR)

    expect(words in state.message, f"what is missing is not named: {state.message!r}")
    running = [each for each in await cell.running(uid) if each.running]
    expect(not running, "it runs without its data")


@promise()
async def a_missing_key_is_named_until_it_is_there(cell: Harness) -> None:
    await put_secret(cell, "keys", {"token": PLANTED})
    container = {"env": [variable("PASSWORD", "secret", "keys", "password")]}
    await create(cell, "keyless-0", container=container)
    state = await wait_failure(cell, "keyless-0", CONFIGURATION_ERROR)
    expect("password" in state.message, f"the key is not named: {state.message!r}")
    expect("keys" in state.message, f"the object is not named: {state.message!r}")

    change = merge({"data": _encoded({"password": "secret"})})
    await cell.client.patch(core.SECRETS, "keys", change, cell.namespace)
    await wait_available(cell, "keyless-0")


@promise()
async def no_report_has_the_value_of_a_secret(cell: Harness) -> None:
    await put_secret(cell, "keys", {"token": PLANTED})
    needs = [variable("T", "secret", "keys", "token"), variable("P", "secret", "keys", "password")]
    await create(cell, "silent-0", container={"env": needs})
    await wait_failure(cell, "silent-0", CONFIGURATION_ERROR)
    await run(cell, "silent-1", container={"env": needs[:1]})

    shown = [bytes((await read(cell, name)).to_wire()) for name in ("silent-0", "silent-1")]
    events = await cell.client.list(core.EVENTS, cell.namespace)
    shown += [bytes(each.to_wire()) for each in events.items]
    encoded = base64.b64encode(PLANTED.encode())
    for text in shown:
        expect(PLANTED.encode() not in text and encoded not in text, f"it is in {text!r}")


# What another deployment has in this cell.


@promise()
async def data_that_was_not_delivered_for_its_deployment_is_refused(cell: Harness) -> None:
    labels = await _deployment(cell, "ConfigMap/settings")
    await put_secret(cell, "keys", {"token": PLANTED})
    container = {"env": [variable("TOKEN", "secret", "keys", "token")]}
    await create(cell, "curious-0", labels=labels, container=container)
    state = await wait_failure(cell, "curious-0", CONFIGURATION_ERROR)

    expect('Secret "keys"' in state.message, f"the message is {state.message!r}")


@promise(PROCESSES, LOGS)
async def optional_data_that_was_not_delivered_for_its_deployment_is_left_out(
    cell: Harness,
) -> None:
    labels = await _deployment(cell, "ConfigMap/settings")
    await put_config_map(cell, "settings", colour="blue")
    await put_secret(cell, "keys", {"token": PLANTED})
    source = {"name": "keys", "optional": True}
    container = {
        **shell(f'echo "[$COLOUR][$TOKEN][$token]$(ls /etc/data)"; {IDLE}'),
        "env": [
            variable("COLOUR", "configMap", "settings", "colour"),
            variable("TOKEN", "secret", "keys", "token", optional=True),
        ],
        "envFrom": [{"secretRef": source}],
        "volumeAttachments": [{"name": "data", "mountPath": "/etc/data"}],
    }

    def change(body: Body) -> None:
        files = {"secretName": "keys", "optional": True}
        body["spec"]["volumes"] = [{"name": "data", "secret": files}]

    found = await create(cell, "curious-1", labels=labels, container=container, change=change)

    await wait_line(cell, found.metadata.uid, "[blue][][]")


async def _deployment(cell: Harness, *entries: str) -> Mapping[str, str]:
    """A deployment that was federated with these; the labels of its Instances."""
    template = build_instance(cell, "template")["spec"]
    body = {
        "metadata": {
            "name": "delivered",
            "annotations": {
                compute.ANNOTATION_SOURCE_GENERATION: "1",
                compute.ANNOTATION_EXPECTED_REFERENCED_DATA: entries_to_text(entries),
            },
        },
        "spec": {
            "workloadRef": {"name": "web", "uid": "8f2c"},
            "placementName": "default",
            "cityCode": "DFW",
            "template": {"spec": {key: template[key] for key in ("runtime", "networkInterfaces")}},
            "scaleSettings": {"minReplicas": 1},
        },
    }
    await cell.client.create(compute.WORKLOAD_DEPLOYMENTS, body, cell.namespace)
    return {compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: "delivered"}


# Credentials for pulls.


@promise(Capability.PRIVATE_IMAGES)
async def a_private_image_is_pulled_with_the_secret_that_matches(cell: Harness) -> None:
    async with cell.private_image() as image:
        await _put_pull_secret(cell, image, image.password)
        await create(cell, "private-1", container={"image": image.reference}, change=_pulls)
        await wait_available(cell, "private-1")
        await remove(cell, "private-1")


@promise(Capability.PRIVATE_IMAGES)
async def a_private_image_without_the_right_password_is_reported(cell: Harness) -> None:
    async with cell.private_image() as image:
        await create(cell, "keyless-1", container={"image": image.reference})
        state = await wait_failure(cell, "keyless-1", compute.REASON_IMAGE_UNAVAILABLE)
        expect(image.reference in state.message, f"the message is {state.message!r}")

        await _put_pull_secret(cell, image, "wrong-password")
        await create(cell, "wrong-0", container={"image": image.reference}, change=_pulls)
        state = await wait_failure(cell, "wrong-0", compute.REASON_IMAGE_UNAVAILABLE)
        expect("wrong-password" not in state.message, f"the message is {state.message!r}")


async def _put_pull_secret(cell: Harness, image: PrivateImage, password: str) -> None:
    auth = base64.b64encode(f"{image.username}:{password}".encode()).decode()
    content = json.dumps({"auths": {"registry.invalid": {}, image.registry: {"auth": auth}}})
    kind = "kubernetes.io/dockerconfigjson"
    await put_secret(cell, "registry", {PULL_KEY: content}, type=kind)


def _pulls(body: Body) -> None:
    body["spec"]["runtime"]["sandbox"]["imagePullSecrets"] = [{"name": "registry"}]
