"""Files of ConfigMaps and Secrets in real containers."""

from __future__ import annotations

import pytest
import yaml

from datum_compute.env import SystemEnvironment
from datum_compute.providers.conformance.data import create_with_files, put_config_map
from datum_compute.providers.conformance.harness import create, remove, run, shell, wait
from datum_compute.providers.conformance.processes import IDLE, wait_line
from datum_compute.providers.container import host
from datum_compute.providers.container.images.archive import build_archive
from datum_compute.providers.sandbox import LABEL_UID
from tests.support.decisions.samples import SAMPLES, sample_objects
from tests.support.providers.container import container_cell

pytestmark = [pytest.mark.containers, pytest.mark.realtime]

IMAGE = "localhost/datum-compute-files:1"


async def test_volumes_are_there_with_their_instance_and_leave_with_it(engine: str) -> None:
    async with container_cell(engine) as cell:
        await put_config_map(cell, "settings", one="first")
        source = {"configMap": {"name": "settings"}}
        uid = await create_with_files(cell, "files-0", "cat /etc/data/one; echo", source)
        await wait_line(cell, uid, "first")
        assert len(await cell.direct.volumes({LABEL_UID: uid})) == 1

        await remove(cell, "files-0")

        assert await cell.direct.volumes({LABEL_UID: uid}) == []


async def test_only_volumes_with_all_labels_are_listed(engine: str) -> None:
    """Those of another cell, or of another platform, have some of them too."""
    async with container_cell(engine) as cell:
        mark = SystemEnvironment().new_uid()
        labels = {"platform": mark, "cell": "dfw"}
        names = [f"{mark}-{number}" for number in range(3)]
        try:
            await cell.direct.create_volume(names[0], labels)
            await cell.direct.create_volume(names[1], labels | {"cell": "lhr"})
            await cell.direct.create_volume(names[2], labels | {"platform": "other"})

            assert [each["Name"] for each in await cell.direct.volumes(labels)] == names[:1]
        finally:
            for name in names:
                await cell.direct.remove_volume(name)


async def test_a_volume_without_files_hides_what_the_image_has(engine: str) -> None:
    busybox = host.static_busybox(SystemEnvironment())
    assert busybox is not None
    links = {f"bin/{name}": "busybox" for name in host.BUSYBOX_PROGRAMS}
    texts = {"etc/data/of-the-image": "x"}
    archive = build_archive(IMAGE, {"bin/busybox": busybox}, links, ["/bin/sh"], texts=texts)
    async with container_cell(engine) as cell:
        await cell.direct.load(archive)
        cell.image = IMAGE
        source = {"secret": {"secretName": "no-keys", "optional": True}}
        uid = await create_with_files(cell, "hidden-0", 'echo "[$(ls /etc/data)]"', source)

        await wait_line(cell, uid, "[]")


async def test_the_sample_with_configuration_and_secrets_runs(engine: str) -> None:
    spec = yaml.safe_load((SAMPLES / "config-and-secret.yaml").read_text())["spec"]
    template = spec["template"]["spec"]
    [container] = template["runtime"]["sandbox"]["containers"]
    script = (
        'echo "$LOG_LEVEL $DATABASE_PASSWORD $(cat /etc/ledger/log-level)'
        ' $(cat /etc/ledger-tls/tls.key)"'
    )
    async with container_cell(engine) as cell:
        for resource, body in sample_objects():
            await cell.client.create(resource, body, cell.namespace)
        given = {**container, **shell(f"{script}; {IDLE}"), "image": cell.image}

        def change(body: dict[str, dict[str, object]]) -> None:
            body["spec"]["volumes"] = template["volumes"]

        found = await create(cell, "ledger-0", container=given, change=change)

        await wait_line(cell, found.metadata.uid, "info PASSWORD info tls.key")


async def test_a_container_keeps_what_it_has_while_its_data_does_not_change(engine: str) -> None:
    """A restart of its process makes nothing anew."""
    async with container_cell(engine) as cell:
        await put_config_map(cell, "settings", one="first")
        container = shell(IDLE) | {"envFrom": [{"configMapRef": {"name": "settings"}}]}
        uid = (await run(cell, "kept-0", container=container)).metadata.uid
        [before] = await cell.running(uid)
        await cell.kill(uid, "app")

        async def restarted() -> bool:
            found = await cell.running(uid)
            return [each.id for each in found if each.started_at != before.started_at] == [
                before.id
            ]

        await wait(cell, restarted, "the same container does not run again")
