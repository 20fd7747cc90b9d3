"""``quota``: which resources are short."""

from __future__ import annotations

from tests.support.cli.session import cli_session


def test_a_denied_resource_is_constrained_whatever_its_usage() -> None:
    """One core of one and a half is in use, and the second Instance needs one too."""
    with cli_session("DFW", grant={"vcpus": 1500}) as here:
        here.wait_until(10)
        here.run("deploy web --image=registry.example/acme/web:1 --city=DFW --min=2 --no-wait")
        here.wait_until(60)

        assert " 67%" in here.run("quota --constrained").out
        assert here.run("quota --constrained -o name").out == "quota/vcpus\n"
