"""Data that a cell does not have is named once, in the order of the references."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.references import describe_undelivered_data


def spec(
    *,
    env: list[dict[str, Any]] | None = None,
    volumes: list[dict[str, Any]] | None = None,
    **sandbox: Any,
) -> compute.InstanceSpec:
    container = {"name": "app", "image": "a:1", "env": env or []}
    body = {
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-standard-2"},
            "sandbox": {"containers": [container], **sandbox},
        },
        "networkInterfaces": [{"network": {"name": "default"}}],
        "volumes": volumes or [],
    }
    return msgspec.convert(body, compute.InstanceSpec)


def variable(kind: str, **reference: Any) -> dict[str, Any]:
    return {"name": "V", "valueFrom": {kind: {"key": "k", **reference}}}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (spec(), ""),
        (spec(env=[{"name": "V", "value": "literal"}]), ""),
        (
            spec(env=[variable("configMapKeyRef", name="settings")]),
            'data of ConfigMap "settings" is not delivered to cells yet',
        ),
        (
            spec(env=[variable("secretKeyRef", name="keys")]),
            'data of Secret "keys" is not delivered to cells yet',
        ),
        (spec(env=[variable("secretKeyRef", name="keys", optional=True)]), ""),
        (spec(env=[variable("configMapKeyRef", name="settings", optional=True)]), ""),
        (
            spec(
                volumes=[
                    {"name": "a", "secret": {"secretName": "tls"}},
                    {"name": "b", "configMap": {"name": "settings"}},
                    {"name": "c", "configMap": {"name": "extra", "optional": True}},
                    {"name": "d", "secret": {"secretName": "extra", "optional": True}},
                ],
                env=[variable("configMapKeyRef", name="settings")],
            ),
            'data of Secret "tls", ConfigMap "settings" is not delivered to cells yet',
        ),
        (
            spec(imagePullSecrets=[{"name": "registry"}]),
            'data of Secret "registry" is not delivered to cells yet',
        ),
    ],
)
def test_missing_required_data_is_named(given: compute.InstanceSpec, sentence: str) -> None:
    assert describe_undelivered_data(given) == sentence


def test_a_virtual_machine_has_volumes_too() -> None:
    machine = msgspec.convert(
        {
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "virtualMachine": {"volumeAttachments": [{"name": "boot"}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
            "volumes": [{"name": "tls", "secret": {"secretName": "tls"}}],
        },
        compute.InstanceSpec,
    )

    assert (
        describe_undelivered_data(machine) == 'data of Secret "tls" is not delivered to cells yet'
    )
