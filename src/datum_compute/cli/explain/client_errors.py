"""Failed calls in words: what was being done, what came of it, and what to try."""

from __future__ import annotations

import re

from datum_compute.cli.errors import CommandError, Exit
from datum_compute.client import errors as client


def to_command_error(failure: client.ClientError) -> CommandError:
    """What a failed call means to a person; never a raw status dump."""
    if isinstance(failure, client.TransportFailure):
        return _unreachable(failure)
    text = describe_error(failure)
    if isinstance(failure, client.Unauthorized):
        return CommandError(
            f"the credential was refused: {text}",
            code="Unauthorized",
            hint="log in again with datumctl login, or check --token",
        )
    if isinstance(failure, client.Conflict):
        return CommandError(text, exit_code=Exit.CONFLICT, code="Conflict", retryable=True)
    if isinstance(failure, client.NotFound):
        return CommandError(text, exit_code=Exit.NOT_FOUND, code="NotFound")
    if isinstance(failure, client.NotServed):
        return CommandError(
            f"compute is not served there, or there is no such project: {text}",
            exit_code=Exit.UNAVAILABLE,
            code="NotServed",
            hint="check --project and --server",
        )
    if unknown := _UNKNOWN_FIELD.findall(text):
        return _unknown_fields(text, unknown)
    if isinstance(failure, client.Invalid) and failure.causes:
        # Servers name the field in the message once more.
        causes = [(c.field, c.message.replace(f"{c.field} in body ", "")) for c in failure.causes]
        faults = "".join(f"\n  {field}: {message}" for field, message in causes)
        return CommandError(f"the server refused the request:{faults}", code="Invalid")
    code = failure.reason if isinstance(failure, client.StatusError) else "Failed"
    return CommandError(text, code=code or "Failed")


_UNKNOWN_FIELD = re.compile(r'unknown field "([^"]+)"')


def _unknown_fields(text: str, paths: list[str]) -> CommandError:
    """What nobody knows at the server, and what the kind has instead."""
    from datum_compute.cli.explain.unknown_fields import describe_unknown_field as explained

    doing = text.partition(": ")[0]
    listed = [explained(path) for path in dict.fromkeys(paths)]
    message = f"{doing}: {listed[0]}"
    if len(listed) > 1:
        message = "\n  ".join([f"{doing}: there are unknown fields:", *listed])
    return CommandError(message, exit_code=Exit.USAGE, code="UnknownField")


def _unreachable(failure: client.TransportFailure) -> CommandError:
    """No answer: the innermost cause says it best, where it is one people know."""
    doing, text = _call_and_rest(str(failure))
    where = text.partition(": ")[0] if "://" in text.partition(": ")[0] else "the server"
    hint = "datumctl-compute local status"
    causes = _cause_names(failure)
    if "SSLCertVerificationError" in causes:
        text = f"{where} shows a certificate that is not trusted here"
        hint = "--certificate-authority FILE"
    elif causes & {"SSLError", "SSLEOFError", "SSLZeroReturnError"}:
        text, hint = f"{where} does not speak TLS", "check --server"
    elif "ConnectionRefusedError" in causes:
        text = f"nothing listens at {where}"
    elif "gaierror" in causes:
        text, hint = f"{where} has no address: the name is unknown", "check --server"
    return CommandError(doing + _one_line(text), code="Unreachable", hint=hint, retryable=True)


def _cause_names(error: BaseException) -> set[str]:
    """The names of all classes an error comes from; by name, so that none is imported."""
    names: set[str] = set()
    found: BaseException | None = error
    while found is not None:
        names |= {kind.__name__ for kind in type(found).__mro__}
        found = found.__cause__ or found.__context__
    return names


_CALL = re.compile(
    r"(?P<verb>get|list|watch|create|update|patch|delete) (?P<kind>[a-z]+)\.[a-z0-9.]+(?:/[a-z]+)?"
    r"(?: in namespace \S+| (?:default/)?(?P<name>.+?))??(?: on [^\s:]+)?: ",
)
_DOING = {
    "get": "reading",
    "list": "listing",
    "watch": "watching",
    "create": "creating",
    "update": "changing",
    "patch": "changing",
    "delete": "deleting",
}
_NOUNS = {
    "workloads": "workload",
    "workloaddeployments": "deployment",
    "instances": "instance",
    "networks": "network",
    "locationbindings": "city",
    "serviceentitlements": "access to",
    "allowancebuckets": "quota",
    "configmaps": "history",
}


def _call_and_rest(text: str) -> tuple[str, str]:
    """What was being done, in words and with a colon, and what came of it."""
    found = _CALL.match(text)
    if found is None:
        return "", text
    kind = found["kind"]
    what = f'{_NOUNS.get(kind, kind)} "{found["name"]}"' if found["name"] else _plural(kind)
    return f"{_DOING[found['verb']]} {what}: ", text[found.end() :]


def _plural(kind: str) -> str:
    plurals = {
        "workloaddeployments": "deployments",
        "locationbindings": "cities",
        "serviceentitlements": "access",
        "allowancebuckets": "quota",
        "configmaps": "histories",
    }
    return plurals.get(kind, kind)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def describe_error(failure: client.ClientError) -> str:
    """A failure without the names the API has for things."""
    doing, text = _call_and_rest(str(failure))
    if text.lstrip().startswith("<"):
        text = "the answer is a web page, so this is not the API"
    return doing + _one_line(text)
