"""Failed calls as errors for users: what was attempted, why it failed, and what to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from datum_compute.api.compute.constants import LABEL_SOURCE_CLUSTER
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import AddFlag, OtherProgram, Remark, Suggestion, command
from datum_compute.client import errors as client
from datum_compute.client.call import ClientCall
from datum_compute.client.errors import Fault


def to_command_error(failure: client.ClientError) -> CommandError:
    """A failed call as an error for users; never a raw status dump."""
    if isinstance(failure, client.TransportFailure):
        return _unreachable(failure)
    text = describe_error(failure)
    if isinstance(failure, client.Unauthorized):
        return CommandError(
            f"the credential was refused: {text}",
            OtherProgram(("datumctl", "login")),
            Remark("check --token"),
            code="Unauthorized",
        )
    if isinstance(failure, client.Conflict):
        return CommandError(text, exit_code=Exit.CONFLICT, code="Conflict", retryable=True)
    if isinstance(failure, client.NotFound):
        return CommandError(text, exit_code=Exit.NOT_FOUND, code="NotFound")
    if isinstance(failure, client.NotServed):
        return CommandError(
            f"the server does not serve compute, or the project does not exist: {text}",
            Remark("check --project and --server"),
            exit_code=Exit.UNAVAILABLE,
            code="NotServed",
        )
    if isinstance(failure, client.Invalid) and failure.causes:
        # For display only: servers name the field in the message once more.
        causes = [(c.field, c.message.replace(f"{c.field} in body ", "")) for c in failure.causes]
        faults = "".join(f"\n  {field}: {message}" for field, message in causes)
        return CommandError(
            f"{_doing(failure)}the server refused the request:{faults}",
            exit_code=Exit.USAGE,
            code="Invalid",
        )
    code = failure.reason if isinstance(failure, client.StatusError) else "Failed"
    exit_code = Exit.USAGE if isinstance(failure, client.Invalid) else Exit.FAILED
    return CommandError(text, exit_code=exit_code, code=code or "Failed")


def unknown_fields_error(failure: client.Invalid, unknown: Sequence[str]) -> CommandError:
    """For a refused body with fields that this program does not know either."""
    message = f"{_doing(failure)}{unknown[0]}"
    if len(unknown) > 1:
        message = "\n  ".join([f"{_doing(failure)}unknown fields:", *unknown])
    return CommandError(message, exit_code=Exit.USAGE, code="UnknownField")


def not_offered(
    error: client.StatusError, what: str, instance: Mapping[str, Any], kubectl: Sequence[str]
) -> CommandError:
    """For logs of an instance, or commands in it. An API server of Kubernetes cannot serve them for
    a custom resource; there an instance is a Pod in its cell, which kubectl reaches."""
    name = str(instance["metadata"]["name"])
    if isinstance(error, client.ServerError):
        message, way = error.detail, None
    else:
        cell = (instance["metadata"].get("labels") or {}).get(LABEL_SOURCE_CLUSTER) or "CELL"
        message = f"this platform offers no {what}; the instance is a Pod in cell {cell}"
        words = ("kubectl", "--context", str(cell), "-n", "NAMESPACE", *kubectl, name)
        way = OtherProgram(words)
    return CommandError(message, way, exit_code=Exit.UNAVAILABLE, code="NotOffered")


_LOCAL_STATUS = command("local", "status")
_CHECK_SERVER = Remark("check --server")
_FAULTS: dict[Fault, tuple[str, Suggestion]] = {
    Fault.CERTIFICATE_UNTRUSTED: (
        "the certificate of {} is not trusted",
        AddFlag("--certificate-authority", "FILE"),
    ),
    Fault.NOT_TLS: ("{} does not speak TLS", _CHECK_SERVER),
    Fault.REFUSED: ("{} refused the connection", _LOCAL_STATUS),
    Fault.NAME_UNKNOWN: ("the host of {} cannot be resolved", _CHECK_SERVER),
}
"""By fault: the message about the server, and what to try. Other faults are described by their
detail."""


def _unreachable(failure: client.TransportFailure) -> CommandError:
    text, suggestion = _FAULTS.get(failure.fault, ("", _LOCAL_STATUS))
    if suggestion is _LOCAL_STATUS and not _is_local(failure.server):
        suggestion = _CHECK_SERVER
    text = text.format(failure.server or "the server")
    if not text:
        text = f"{failure.server}: {failure.detail}" if failure.server else failure.detail
    if failure.status_code:
        text = f"{text} (HTTP {failure.status_code})"
    return CommandError(
        _doing(failure) + _one_line(text), suggestion, code="Unreachable", retryable=True
    )


def _is_local(server: str) -> bool:
    host = urlsplit(server).hostname or "localhost"
    return host == "localhost" or host.startswith("127.") or host == "::1"


_VERBS = {
    "get": "reading",
    "list": "listing",
    "watch": "watching",
    "create": "creating",
    "update": "changing",
    "patch": "changing",
    "delete": "deleting",
}
_NOUNS = {
    "workloads": ("workload", "workloads"),
    "workloaddeployments": ("deployment", "deployments"),
    "instances": ("instance", "instances"),
    "networks": ("network", "networks"),
    "locationbindings": ("city", "cities"),
    "serviceentitlements": ("access to", "access"),
    "allowancebuckets": ("quota", "quota"),
    "configmaps": ("ConfigMap", "ConfigMaps"),
    "secrets": ("Secret", "Secrets"),
}
"""Kinds as people call them: one, many."""


def _doing(failure: client.ClientError) -> str:
    """What was being done, with a colon; empty where only a path is known."""
    call = failure.call
    if not isinstance(call, ClientCall):
        return ""
    plural = call.resource.plural
    one, many = _NOUNS.get(plural, (plural, plural))
    name = call.name
    if plural == "configmaps":
        from datum_compute.cli.history.entries import NAME_PREFIX  # slow to load

        if name.startswith(NAME_PREFIX):
            one, name = "the history of workload", name.removeprefix(NAME_PREFIX)
    if call.subresource == "exec":
        return f'running a command in {one} "{name}": '
    return f"{_VERBS[call.verb]} " + (f'{one} "{name}": ' if name else f"{many}: ")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def describe_error(failure: client.ClientError) -> str:
    """A failure's text, on one line and without the API's prefix."""
    text = failure.detail
    if isinstance(failure, client.StatusError) and failure.is_web_page:
        text = "the server answered with a web page, not an API response"
    return _doing(failure) + _one_line(text)
