"""What of ConfigMaps and Secrets becomes variables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.providers.data import DataObject, InstanceData
from datum_compute.providers.errors import Rejected
from datum_compute.providers.protocol import InstanceTarget

TARGET = InstanceTarget("dfw", msgspec.convert({"metadata": {"name": "web-0"}}, compute.Instance))
DATA = InstanceData(
    {
        "Secret/keys": DataObject(
            "1", {"text": b"planted", "bytes": b"\xffplanted", "nul": b"a\0"}
        ),
        "ConfigMap/settings": DataObject("1", {"a": b"x"}, {"b": b"y"}),
    }
)


def variables(**container: Any) -> dict[str, str]:
    body = {"name": "app", "image": "a:1", **container}
    return DATA.variables(TARGET, msgspec.convert(body, compute.Container))


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [("secret", "keys", "bytes"), ("secret", "keys", "nul"), ("configMap", "settings", "b")],
)
def test_what_is_not_text_is_no_variable_and_is_not_shown(kind: str, name: str, key: str) -> None:
    ref = {f"{kind}KeyRef": {"name": name, "key": key}}
    with pytest.raises(Rejected, match=f"key '{key}' is not text") as raised:
        variables(env=[{"name": "V", "valueFrom": ref}])

    assert "planted" not in raised.value.message


def test_bytes_of_a_config_map_are_files_and_no_variables() -> None:
    assert variables(envFrom=[{"configMapRef": {"name": "settings"}}]) == {"a": "x"}
    volume = msgspec.convert({"name": "v", "configMap": {"name": "settings"}}, compute.Volume)

    assert [each.path for each in DATA.volume_files(volume)] == ["a", "b"]


def test_no_representation_of_data_has_a_value() -> None:
    volume = msgspec.convert({"name": "v", "secret": {"secretName": "keys"}}, compute.Volume)

    assert "planted" not in repr(DATA)
    assert "planted" not in repr(DATA.volume_files(volume))


def test_the_version_of_data_changes_with_any_object() -> None:
    changed = {**DATA.objects, "Secret/keys": DataObject("2", {})}

    assert DATA.version != InstanceData(changed).version
    assert InstanceData({}).version == ""
