"""How podman's service is started."""

from __future__ import annotations

import pytest

from datum_compute.providers.container.sockets import with_system_programs


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/usr/bin:/bin", "/usr/bin:/bin:/usr/sbin:/sbin"),
        ("/sbin:/usr/sbin:/bin", "/sbin:/usr/sbin:/bin"),
        ("/usr/sbin", "/usr/sbin:/sbin"),
        ("", "/usr/sbin:/sbin"),
    ],
)
def test_podman_finds_the_programs_of_administrators(path: str, expected: str) -> None:
    assert with_system_programs({"PATH": path, "A": "b"}) == {"PATH": expected, "A": "b"}


def test_a_path_is_made_where_there_is_none() -> None:
    assert with_system_programs({}) == {"PATH": "/usr/sbin:/sbin"}
