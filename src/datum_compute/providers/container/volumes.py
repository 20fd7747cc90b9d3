"""The files of ConfigMaps and Secrets, as volumes of the engine.

Each volume of an Instance that is data becomes one of the engine, which its containers mount
read-only. It is filled before they are created, through a container that mounts it and is never
started: the one way of the API that serves podman and docker alike. The engine keeps volumes in a
directory of its own user, and they are removed with the Instance.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions import references
from datum_compute.providers.container.engine import ContainerEngine
from datum_compute.providers.container.images.archive import add_file
from datum_compute.providers.container.spec import LABEL_CELL, LABEL_PLATFORM, volume_name
from datum_compute.providers.data import InstanceData, VolumeFile
from datum_compute.providers.protocol import InstanceTarget
from datum_compute.providers.sandbox import LABEL_UID, sandbox_of

MARKER = "..data"
"""A directory in every volume, as the kubelet has one of this name: engines copy what the image has
at the mount point into a volume that is empty."""
DIRECTORY_MODE = 0o755
TARGET = "/datum-volume"


class EngineVolumes:
    def __init__(self, engine: Callable[[], ContainerEngine]) -> None:
        self._engine = engine

    async def ensure(
        self,
        target: InstanceTarget,
        data: InstanceData,
        labels: Mapping[str, str],
        *,
        fill: bool,
    ) -> dict[str, str]:
        """The directory of each volume on the engine's host, by its name in the Instance. With
        ``fill`` they are made anew with this data; without, containers that run use them."""
        wanted = [
            each for each in target.instance.spec.volumes if references.volume_reference(each)
        ]
        if not wanted:
            return {}
        engine = self._engine()
        if fill:
            await self.remove(target.uid, target.instance.metadata.name)
        found = {
            each.name: await engine.create_volume(volume_name(target.instance, each.name), labels)
            for each in wanted
        }
        if fill:
            await self._fill(target, wanted, data, labels)
        return found

    async def _fill(
        self,
        target: InstanceTarget,
        volumes: Sequence[compute.Volume],
        data: InstanceData,
        labels: Mapping[str, str],
    ) -> None:
        engine, name = self._engine(), _filler_name(target.uid, target.instance.metadata.name)
        mounts = [
            _mount(volume_name(target.instance, each.name), number)
            for number, each in enumerate(volumes)
        ]
        body = {
            "Image": sandbox_of(target).containers[0].image,
            "Cmd": ["-"],  # an image need not name one, and it is not run
            # Of the platform, but not one of the Instance's own containers.
            "Labels": {key: labels[key] for key in (LABEL_PLATFORM, LABEL_CELL)},
            "HostConfig": {"NetworkMode": "none", "Mounts": mounts},
        }
        await engine.create(name, body)
        try:
            for number, volume in enumerate(volumes):
                files = data.volume_files(volume)
                archive = pack_files(files, sub_paths(target, volume.name))
                await engine.put_files(name, f"{TARGET}/{number}", archive)
        finally:
            await engine.remove(name)

    async def remove(self, uid: str, instance: str) -> None:
        """All of an Instance, with what an interrupted call has left."""
        engine = self._engine()
        await engine.remove(_filler_name(uid, instance))
        for volume in await engine.volumes({LABEL_UID: uid}):
            await engine.remove_volume(str(volume["Name"]))


def _filler_name(uid: str, instance: str) -> str:
    return f"{instance}-{uid[:8]}-files"


def _mount(source: str, number: int) -> dict[str, Any]:
    return {"Type": "volume", "Source": source, "Target": f"{TARGET}/{number}"}


def sub_paths(target: InstanceTarget, volume: str) -> list[str]:
    """What containers mount alone of this volume."""
    return [
        attachment.sub_path
        for container in sandbox_of(target).containers
        for attachment in container.volume_attachments
        if attachment.name == volume and attachment.sub_path
    ]


def pack_files(files: Sequence[VolumeFile], needed: Sequence[str] = ()) -> bytes:
    """A tar of the files, owned by root, in their directories. What is ``needed`` and missing is
    an empty directory, as it is in a Pod."""
    paths = {each.path for each in files}
    directories = {MARKER: None}
    for path in [*paths, *needed]:
        parts = path.split("/")
        directories |= {"/".join(parts[:end]): None for end in range(1, len(parts))}
    directories |= {path: None for path in needed if path not in paths}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(directories):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, DIRECTORY_MODE
            archive.addfile(entry)
        for each in files:
            add_file(archive, each.path, each.content, each.mode)
    return packed.getvalue()
