"""The kinds every plane serves without a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from datum_compute.api.scheme import Resource
from datum_compute.apiserver.kinds import columns, webhook_configurations
from datum_compute.apiserver.kinds.access_kinds import access_kinds
from datum_compute.apiserver.kinds.columns import BUILTIN_AGE, NAME, TableColumn
from datum_compute.apiserver.kinds.served_kind import VERBS, ServedKind, StoredForm
from datum_compute.apiserver.schema import compiled


def builtin_kinds() -> list[ServedKind]:
    return [
        _namespaces(),
        _config_maps(),
        _secrets(),
        _service_accounts(),
        _events(),
        _renamed_events(),
        _services(),
        _leases(),
        _definitions(),
        *access_kinds(),
        _webhooks("ValidatingWebhookConfiguration", "Allows or refuses writes by webhooks."),
        _webhooks("MutatingWebhookConfiguration", "Changes or refuses writes by webhooks."),
    ]


def _namespaces() -> ServedKind:
    finalizers = {"type": "array", "items": {"type": "string"}}
    return _builtin(
        Resource("", "v1", "namespaces", "Namespace", namespaced=False),
        ("ns",),
        TableColumn("Status", "string", ".status.phase"),
        BUILTIN_AGE,
        schema=_object(
            "A scope for names: objects in different namespaces may have the same name.",
            spec=_object("How it is deleted.", finalizers=finalizers),
            status=_object(
                "Whether it is in use.",
                phase=_text("Active or Terminating."),
                conditions=_list("What its deletion waits for.", _CONDITION),
            ),
        ),
        has_status=True,
        verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
        selectable_fields=("status.phase",),
    )


def _config_maps() -> ServedKind:
    return _builtin(
        Resource("", "v1", "configmaps", "ConfigMap"),
        ("cm",),
        TableColumn("Data", "string", "", computed=columns.count("data", "binaryData")),
        BUILTIN_AGE,
        schema=_object(
            "Configuration that is not secret.",
            data=_texts("Strings by key."),
            binaryData=_texts("Bytes by key, in base64.", format="byte"),
            immutable=_IMMUTABLE,
        ),
    )


def _secrets() -> ServedKind:
    return _builtin(
        Resource("", "v1", "secrets", "Secret"),
        (),
        TableColumn("Type", "string", ".type"),
        TableColumn("Data", "string", "", computed=columns.count("data")),
        BUILTIN_AGE,
        schema=_object(
            "Configuration with restricted access.",
            type={**_text("What the data is for."), "default": "Opaque"},
            data=_texts("Values by key, in base64.", format="byte"),
            stringData=_texts("Values by key, not encoded; added to data when written."),
            immutable=_IMMUTABLE,
        ),
        selectable_fields=("type",),
    )


def _service_accounts() -> ServedKind:
    automount = {
        "type": "boolean",
        "description": "Whether its token is mounted.",
    }
    return _builtin(
        Resource("", "v1", "serviceaccounts", "ServiceAccount"),
        ("sa",),
        TableColumn("Secrets", "string", "", computed=columns.count("secrets")),
        BUILTIN_AGE,
        schema=_object(
            "An identity for processes.",
            secrets=_list("Secrets that belong to it.", _REFERENCE),
            imagePullSecrets=_list(
                "Secrets for pulling images.", _object("A Secret.", name=_text("Its name."))
            ),
            automountServiceAccountToken=automount,
        ),
    )


def _events() -> ServedKind:
    return _builtin(
        Resource("", "v1", "events", "Event"),
        ("ev",),
        TableColumn("Last Seen", "string", "", computed=columns.event_last_seen),
        TableColumn("Type", "string", ".type"),
        TableColumn("Reason", "string", ".reason"),
        TableColumn("Object", "string", "", computed=columns.event_object),
        TableColumn("Subobject", "string", ".involvedObject.fieldPath", 1),
        TableColumn("Source", "string", "", 1, computed=columns.event_source),
        TableColumn("Message", "string", "", computed=columns.event_message),
        TableColumn("First Seen", "string", "", 1, computed=columns.event_first_seen),
        TableColumn("Count", "string", "", 1, computed=columns.event_count),
        TableColumn("Name", "string", ".metadata.name", 1, "name"),
        schema=_object(
            "Something that happened to an object. Kept for an hour.",
            involvedObject=_REFERENCE,
            related=_REFERENCE,
            count=_whole("How often it happened."),
            message=_text("What happened, for people."),
            reason=_text("What happened, as one CamelCase word."),
            action=_text("What the reporter did."),
            type=_text("Normal or Warning."),
            source=_object(
                "Who reports it.", component=_text("The program."), host=_text("Its host.")
            ),
            reportingComponent=_text("The controller that reports it."),
            reportingInstance=_text("The instance of the controller."),
            firstTimestamp=_time("When it happened first."),
            lastTimestamp=_time("When it happened last."),
            eventTime=_time("When it was observed first."),
            series=_object(
                "Repetitions.",
                count=_whole("How many."),
                lastObservedTime=_time("When the last was observed."),
            ),
        ),
        named_first=False,
        created_by_update=True,
        selectable_fields=(
            *(f"involvedObject.{name}" for name in _INVOLVED),
            *("reason", "reportingComponent", "source", "type"),
        ),
    )


def _renamed_events() -> ServedKind:
    """The same Events in the group events.k8s.io, where some fields have other names."""
    core = _events()
    form = StoredForm(
        core.resource,
        {
            "regarding": "involvedObject",
            "note": "message",
            "reportingController": "reportingComponent",
            "deprecatedSource": "source",
            "deprecatedFirstTimestamp": "firstTimestamp",
            "deprecatedLastTimestamp": "lastTimestamp",
            "deprecatedCount": "count",
        },
    )
    back = {stored: shown for shown, stored in form.names.items()}
    fields = [each for each in core.selectable_fields if each != "source"]
    return replace(
        core,
        resource=Resource("events.k8s.io", "v1", "events", "Event"),
        columns=tuple(_of_stored(form, column) for column in core.columns),
        selectable_fields=tuple(
            ".".join((back.get(first, first), *rest))
            for first, *rest in (each.split(".") for each in fields)
        ),
        stored_form=form,
    )


def _of_stored(form: StoredForm, column: TableColumn) -> TableColumn:
    value = column.value()
    return replace(
        column, json_path="", computed=lambda obj, now: value(form.stored(dict(obj)), now)
    )


def _services() -> ServedKind:
    """There are none, and none can be created: nothing here routes to them. They are listed for
    clients that look for some, such as ``kubectl cluster-info`` and ``kubectl get all``."""
    return _builtin(
        Resource("", "v1", "services", "Service"),
        ("svc",),
        TableColumn("Type", "string", ".spec.type"),
        TableColumn("Cluster-IP", "string", ".spec.clusterIP"),
        TableColumn("External-IP", "string", ".spec.externalIPs"),
        TableColumn("Port(s)", "string", ".spec.ports[*].port"),
        BUILTIN_AGE,
        schema=_loose("A name for several processes. This server has none."),
        verbs=("get", "list", "watch"),
        categories=("all",),
    )


def _leases() -> ServedKind:
    spec = _object(
        "The holder, and for how long.",
        holderIdentity=_text("The holder."),
        leaseDurationSeconds={**_whole("Seconds it is held without renewal."), "minimum": 1},
        leaseTransitions={**_whole("How often the holder changed."), "minimum": 0},
        acquireTime=_time("When the holder acquired it."),
        renewTime=_time("When the holder last renewed it."),
        strategy=_text("How a holder is chosen, where a server does that."),
        preferredHolder=_text("Whom a server would choose."),
    )
    return _builtin(
        Resource("coordination.k8s.io", "v1", "leases", "Lease"),
        (),
        TableColumn("Holder", "string", "", computed=columns.text("spec", "holderIdentity")),
        BUILTIN_AGE,
        schema=_object("A lock that one of several processes holds for a while.", spec=spec),
        created_by_update=True,
        needs_revision=True,
    )


def _definitions() -> ServedKind:
    name = "CustomResourceDefinition"
    return _builtin(
        Resource("apiextensions.k8s.io", "v1", f"{name.lower()}s", name, namespaced=False),
        ("crd", "crds"),
        TableColumn("Created At", "date", "", computed=columns.created_at),
        schema=_object(
            "Adds a kind to the server.",
            spec=_object(
                "The kind: its names, its versions and their schemas.",
                group=_text("The API group; with the plural it is the definition's name."),
                scope=_text("Namespaced or Cluster."),
                names=_names("The names of the kind."),
                versions=_list("The versions, exactly one of which is stored.", _version()),
                conversion=_loose("How versions are converted: only None is served."),
                preserveUnknownFields=_flag("Not served: must be false."),
            ),
            status=_object(
                "Whether the kind is served.",
                conditions=_list("Whether its names are accepted.", _CONDITION),
                acceptedNames=_names("The names that are served."),
                storedVersions=_texts_list("Versions that objects may be stored in."),
            ),
        ),
        has_status=True,
        categories=("api-extensions",),
        needs_revision=True,
    )


def _names(description: str) -> dict[str, Any]:
    return _object(
        description,
        plural=_text("In paths."),
        singular=_text("For people."),
        kind=_text("In objects."),
        listKind=_text("In lists."),
        shortNames=_texts_list("Short forms of the plural."),
        categories=_texts_list("Groups of kinds, such as all."),
    )


def _version() -> dict[str, Any]:
    column = _object(
        "A column of a table.",
        name=_text("Its head."),
        type=_text("The type of its values."),
        format=_text("The form of its values."),
        description=_text("What it shows."),
        priority=_whole("Above 0: only shown on request."),
        jsonPath=_text("Where the value is."),
    )
    return _object(
        "A version, its schema, its columns and subresources.",
        name=_text("Its name."),
        served=_flag("Whether it is served."),
        storage=_flag("Whether objects are stored in it."),
        deprecated=_flag("Whether its use gives a warning."),
        deprecationWarning=_text("The warning."),
        schema=_object("What objects may have.", openAPIV3Schema=_loose("The schema.")),
        subresources=_object(
            "What is beside the object.",
            status=_object("Whether the status is written by itself."),
            scale=_object(
                "Where the number of replicas is.",
                specReplicasPath=_text("The desired number."),
                statusReplicasPath=_text("The observed number."),
                labelSelectorPath=_text("The selector of the replicas."),
            ),
        ),
        additionalPrinterColumns=_list("Columns of tables.", column),
        selectableFields=_list(
            "Fields that selectors may name.",
            _object("A field.", jsonPath=_text("Where the value is.")),
        ),
    )


def _webhooks(name: str, description: str) -> ServedKind:
    hooks = _list("The webhooks.", _loose("One webhook."))
    return _builtin(
        Resource(webhook_configurations.GROUP, "v1", f"{name.lower()}s", name, namespaced=False),
        (),
        TableColumn("Webhooks", "integer", "", computed=columns.count("webhooks")),
        BUILTIN_AGE,
        schema=_object(description, webhooks=hooks),
        categories=("api-extensions",),
    )


def _builtin(
    resource: Resource,
    short_names: tuple[str, ...],
    *columns: TableColumn,
    schema: Mapping[str, Any],
    has_status: bool = False,
    verbs: tuple[str, ...] = VERBS,
    categories: tuple[str, ...] = (),
    selectable_fields: tuple[str, ...] = (),
    named_first: bool = True,
    created_by_update: bool = False,
    needs_revision: bool = False,
) -> ServedKind:
    return ServedKind(
        resource=resource,
        list_kind=f"{resource.kind}List",
        singular=resource.kind.lower(),
        short_names=short_names,
        categories=categories,
        columns=(NAME, *columns) if named_first else columns,
        has_status=has_status,
        schema=compiled(schema),
        verbs=verbs,
        builtin=True,
        selectable_fields=selectable_fields,
        created_by_update=created_by_update,
        needs_revision=needs_revision,
    )


def _object(description: str, /, **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "description": description, "properties": properties}


def _loose(description: str) -> dict[str, Any]:
    """A schema that keeps every field."""
    return {
        "type": "object",
        "description": description,
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _list(description: str, items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "description": description, "items": items}


def _texts_list(description: str) -> dict[str, Any]:
    return _list(description, {"type": "string"})


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}


def _time(description: str) -> dict[str, Any]:
    return {"type": "string", "format": "date-time", "description": description}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _texts(description: str, **rules: str) -> dict[str, Any]:
    values = {"type": "string", **rules}
    return {"type": "object", "description": description, "additionalProperties": values}


def _whole(description: str) -> dict[str, Any]:
    return {"type": "integer", "format": "int32", "description": description}


_CONDITION = _object(
    "A condition.",
    type=_text("What it is about."),
    status=_text("True, False or Unknown."),
    reason=_text("Why, as one CamelCase word."),
    message=_text("Why, for people."),
    lastTransitionTime=_time("When the status changed."),
)
_REFERENCE = _object(
    "An object.",
    kind=_text("Its kind."),
    namespace=_text("Its namespace."),
    name=_text("Its name."),
    uid=_text("Its uid."),
    apiVersion=_text("Its API version."),
    resourceVersion=_text("The version of it that is meant."),
    fieldPath=_text("The part of it that is meant."),
)
_IMMUTABLE = {"type": "boolean", "description": "Whether the data may never change again."}
_INVOLVED = (
    "apiVersion",
    "fieldPath",
    "kind",
    "name",
    "namespace",
    "resourceVersion",
    "uid",
)
