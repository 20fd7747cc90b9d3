"""Messages and exit codes before compute is enabled for a project, and while it is activated."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from datum_compute.api.services import v1alpha1 as services
from datum_compute.cli.access import AccessState, access_of
from datum_compute.cli.context import Streams
from datum_compute.cli.main import WITHOUT_ACCESS, main
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest, HttpResponse
from tests.support.cli.intercepted_session import InterceptedSession
from tests.support.cli.session import (
    TOKEN,
    CliSession,
    SessionDestination,
    SessionReach,
    SessionReader,
    cli_session,
)
from tests.support.cli.terminal import Terminal

ENTITLEMENTS = services.SERVICE_ENTITLEMENTS


def withdraw(here: CliSession) -> None:
    here.act(here.client().delete(ENTITLEMENTS, "compute"))


def answer(here: CliSession, **status: Any) -> None:
    patch = merge({"status": status})
    here.act(here.client().patch(ENTITLEMENTS, "compute", patch, subresource="status"))
    here.wait(1)


class Person(io.StringIO):
    def isatty(self) -> bool:
        return True


def at_a_terminal(here: CliSession, line: str, typed: str) -> tuple[int, str, str]:
    out, err = Terminal(), Terminal()
    streams = Streams(Person(typed), out, err)
    code = main(line.split(), here.env, streams, reach=SessionReach(here))
    return code, "\n".join(out.screen), "\n".join(err.screen)


@pytest.mark.parametrize(
    "line", ["workloads", "deploy api --image=a:1 --city=DFW --yes", "why api", "quota", "logs"]
)
def test_a_command_without_access_is_refused_off_a_terminal_even_with_yes(line: str) -> None:
    with cli_session() as here:
        withdraw(here)

        result = here.run(line)

        assert result.code == 10
        assert "Try:  datumctl-compute access request" in result.err
        assert here.run("access -o json").json["object"] is None, "access was not requested"


@pytest.mark.parametrize("command", sorted(WITHOUT_ACCESS - {"local", "access"}))
def test_some_commands_need_no_access(command: str) -> None:
    with cli_session() as here:
        withdraw(here)

        assert here.run(f"{command} bash" if command == "completion" else command).code == 0
        with pytest.raises(SystemExit) as shown:
            here.run("deploy --help")
        assert shown.value.code == 0


def test_declining_the_offer_of_access_exits_9_and_requests_nothing() -> None:
    with cli_session() as here:
        withdraw(here)
        for typed in ("n\n", "\n", ""):
            code, out, err = at_a_terminal(here, "instances", typed)

            assert code == 9
            assert out == ""
            assert 'Compute is not enabled for project "demo".' in err
        assert here.run("access").code == 10


def test_a_request_that_becomes_active_soon_runs_the_command() -> None:
    with cli_session(activation_seconds=20) as here:
        withdraw(here)

        code, _, err = at_a_terminal(here, "instances", "y\n")

        assert code == 0
        assert "Would you like to request access? [y/N]" in err
        assert "Compute is enabled." in err
        assert "No instances in project demo." in err


def test_a_slow_request_is_reported_and_not_offered_again() -> None:
    with cli_session(activation_seconds=120) as here:
        withdraw(here)

        code, _, err = at_a_terminal(here, "instances", "y\n")
        assert code == 12
        assert "Requested. Activation usually takes a few minutes." in err
        assert "Error" not in err

        here.wait(30)
        code, _, err = at_a_terminal(here, "instances", "y\n")
        assert code == 12
        assert err.startswith("Access to compute was requested 1m ago and is being activated.")
        assert "Would you like" not in err

        result = here.run("access request --wait")
        assert result.code == 0
        assert 'Compute is enabled for project "demo".' in result.err
        assert here.run("instances").code == 0


def test_an_entitlement_that_already_exists_counts_as_activating() -> None:
    with cli_session(activation_seconds=120) as here:
        withdraw(here)
        made: list[bool] = []

        async def both(request: HttpRequest, number: int) -> HttpResponse | None:
            if request.method == "POST" and "/serviceentitlements" in request.path and not made:
                made.append(True)
                await here.platform.server.handle(request)  # another user's request comes first
            return None

        result = InterceptedSession(here, both).run("access request")

        assert made
        assert result.code == 0
        assert result.err == "Requested. Activation usually takes a few minutes.\n"
        assert here.run("instances").code == 12
        again = here.run("access request")
        assert (again.code, again.err) == (
            0,
            "Access was requested 2s ago and is being activated.\n",
        )


def test_waiting_for_access_ends_at_its_timeout() -> None:
    with cli_session(approval_by_hand=True) as here:
        withdraw(here)

        result = here.run("access request --wait --timeout 45s")

        assert result.code == 4
        assert "access to compute is not active after 45s" in result.err


def test_access_follows_each_manual_decision() -> None:
    with cli_session(approval_by_hand=True) as here:
        assert here.run("workloads").code == 0, "the platform's own project does not wait"
        withdraw(here)
        here.run("access request")
        here.wait(3600)
        assert here.run("workloads").code == 12

        answer(here, phase="Rejected")
        denied = here.run("workloads")
        assert denied.code == 11
        assert 'access to compute was denied for project "demo"' in denied.err
        assert here.run("access request").code == 11

        answer(here, phase="Active")
        assert here.run("workloads").code == 0

        answer(here, phase="Rejected")
        revoked = here.run("workloads")
        assert revoked.code == 11
        assert 'access to compute was revoked for project "demo"' in revoked.err


def test_a_request_names_the_service_object_of_the_catalogue() -> None:
    with cli_session() as here:
        withdraw(here)

        assert here.run("access request --wait").code == 0

        found = here.act(here.client().get(ENTITLEMENTS, "compute"))
        view = found.view(services.ServiceEntitlement)
        assert view.spec.service_ref.name == "compute"
        assert view.status.service_name == "compute.datumapis.com"
        assert here.run("workloads").code == 0


def test_a_service_that_is_not_published_is_not_offered() -> None:
    with cli_session() as here:
        withdraw(here)
        root = here.client("root")
        here.act(root.delete(services.SERVICES, services.SERVICE_COMPUTE))
        here.wait(1)
        here.run("access request")
        here.wait(1)

        result = here.run("workloads")

        assert result.code == 13
        assert "compute is not offered" in result.err


def test_a_platform_without_entitlements_needs_no_access_request() -> None:
    """A single cluster without Milo does not serve the kind."""
    with cli_session() as here:
        withdraw(here)
        hub = SessionReach(here)
        streams = Streams(io.StringIO(), io.StringIO(), io.StringIO())

        class Elsewhere(SessionDestination):
            def reader(self) -> Any:
                reader = SessionReader(
                    "http://desk", cluster="dfw", prefix="/clusters/dfw", token=TOKEN
                )
                reader.session = self.session
                return reader

        class OnAClusterWithoutIt(SessionReach):
            def find(self, env: Any, args: Any) -> Any:
                found: Any = hub.find(env, args)
                return Elsewhere(found.session, found.project, found.token)

        reach = OnAClusterWithoutIt(here)
        code = main(["access", "-o", "json"], here.env, streams, reach=reach)

        assert code == 0
        assert json.loads(streams.stdout.getvalue())["state"] == "not needed"  # type: ignore[attr-defined]
        assert main(["workloads"], here.env, streams, reach=reach) == 0


def entitlement(ready: tuple[str, str] | None = None, **status: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready[0], "reason": ready[1]}] if ready else []
    return {"metadata": {"name": "compute"}, "status": {**status, "conditions": conditions}}


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (entitlement(), AccessState.PENDING),
        (entitlement(phase="PendingApproval"), AccessState.PENDING),
        (entitlement(("False", "EntitlementPendingApproval")), AccessState.PENDING),
        (entitlement(("Unknown", "Whatever"), phase="Active"), AccessState.PENDING),
        (entitlement(("True", "EntitlementActive"), phase="Active"), AccessState.ACTIVE),
        (entitlement(phase="Active"), AccessState.ACTIVE),
        (entitlement(("False", "EntitlementRejected")), AccessState.DENIED),
        (entitlement(phase="Rejected", entitledAt="2026-01-01T00:00:00Z"), AccessState.REVOKED),
        (entitlement(("False", "ServiceNotPublished")), AccessState.NOT_OFFERED),
        (
            {
                "metadata": {"name": "compute"},
                "status": {
                    "phase": "Active",
                    "conditions": [{"type": "Suspended", "status": "True", "reason": "x"}],
                },
            },
            AccessState.SUSPENDED,
        ),
    ],
)
def test_an_entitlement_maps_to_its_access_state(found: dict[str, Any], state: AccessState) -> None:
    assert access_of(found).state is state


@pytest.mark.parametrize(
    "line", ["workloads", "status api", "access", "access request", "deploy api --image=a --city=X"]
)
def test_an_unknown_project_is_reported_with_the_existing_ones(line: str) -> None:
    with cli_session() as here:
        result = here.run(f"{line} --project dmeo")

        assert (result.code, result.out) == (5, "")
        assert result.err == (
            'Error: project "dmeo" not found; available: demo\n'
            "Try:  datumctl-compute workloads --project demo\n"
        )


def test_a_project_is_not_reported_missing_where_projects_cannot_be_read() -> None:
    with cli_session() as here:

        class Blind(SessionDestination):
            def root(self) -> Any:
                return None

        class Reached(SessionReach):
            def find(self, env: Any, args: Any) -> Any:
                return Blind(self.session, "dmeo", TOKEN)

        err = io.StringIO()
        streams = Streams(io.StringIO(), io.StringIO(), err)

        assert main(["workloads"], here.env, streams, reach=Reached(here)) == 13
        assert "the server does not serve compute, or the project does not exist" in err.getvalue()
