"""The files of ConfigMaps and Secrets, as the engine unpacks them."""

from __future__ import annotations

import io
import tarfile

from datum_compute.providers.container.volumes import MARKER, pack_files
from datum_compute.providers.data import VolumeFile


def unpacked(packed: bytes) -> dict[str, tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {
            each.name: (f"{each.mode:o}", b"".join(archive.extractfile(each) or ()))
            for each in archive
            if each.uid == each.gid == 0
        }


def test_files_are_packed_with_their_modes_and_directories() -> None:
    files = [VolumeFile("deep/er/key", b"x\x00", 0o400), VolumeFile("plain", b"y", 0o644)]

    assert unpacked(pack_files(files)) == {
        MARKER: ("755", b""),
        "deep": ("755", b""),
        "deep/er": ("755", b""),
        "deep/er/key": ("400", b"x\x00"),
        "plain": ("644", b"y"),
    }


def test_a_volume_is_never_empty_since_engines_fill_an_empty_one_from_the_image() -> None:
    assert list(unpacked(pack_files([]))) == [MARKER]


def test_a_sub_path_that_optional_data_lacks_is_an_empty_directory() -> None:
    found = unpacked(pack_files([VolumeFile("there", b"", 0o644)], ["there", "not/there"]))

    assert list(found) == [MARKER, "not", "not/there", "there"]
