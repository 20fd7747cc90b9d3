"""Requests that run in the worker process, from the server's side.

The process gets copies of the stored objects that the request depends on. When it has answered,
those may have changed: then the request is sent again with the new ones. What it wants stored is
stored in the same step in which that is checked, so that the outcome is the same as that of a
request which runs on the loop.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from datum_compute.apiserver import errors
from datum_compute.apiserver.kinds import builtin_rules, registry
from datum_compute.apiserver.managed_fields.entries import with_entries
from datum_compute.apiserver.objects.lifecycle import WriteResult, is_validated
from datum_compute.apiserver.objects.planes import Plane
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.storage.protocol import EncodedObject, ObjectKey, StoredObject
from datum_compute.apiserver.verbs.writes import Draft
from datum_compute.apiserver.worker import records
from datum_compute.apiserver.worker.process import WorkerProcess
from datum_compute.apiserver.worker.records import Outcome, SentRow, Task
from datum_compute.client.transport import HttpResponse
from datum_compute.env import Environment

ATTEMPTS = 5
"""Before the client gets a conflict, as with admission."""

Rows = dict[ObjectKey, StoredObject]


class Offload:
    """Runs requests in the worker process."""

    def __init__(
        self, worker: WorkerProcess, env: Environment, plane: Callable[[str], Plane]
    ) -> None:
        """``plane`` gives the plane of a name as it is then; it raises if there is none."""
        self._worker = worker
        self._env = env
        self._plane = plane

    async def run(self, verb: str, call: RequestContext) -> HttpResponse:
        """A verb of :mod:`..verbs.one_object`."""
        outcome, rows, mark = await self._send(verb, call, is_trial=False)
        body, write = outcome.body, outcome.write
        if write is None:
            return HttpResponse(outcome.status, outcome.headers, body)
        store, resource = call.plane.store, call.kind.stored_as
        obj = EncodedObject(write.raw, mark.encode(), write.managed)
        before = rows.get((resource, call.target.namespace, call.target.name))
        if write.is_removal:
            assert before is not None, "only what is stored is removed"
            stored = store.remove(resource, obj, before)
        else:
            schema = call.kind.schema if write.is_validated else None
            stored = store.put(resource, obj, before, validated_by=schema, managed=write.managed)
        if body:
            body = body.replace(mark.encode(), b"%d" % stored.revision)
        elif call.request.with_managed_fields:
            body = with_entries(stored.raw, stored.managed)
        else:
            body = stored.raw
        return HttpResponse(outcome.status, outcome.headers, body)

    async def try_write(
        self, verb: str, call: RequestContext
    ) -> tuple[Draft, WriteResult] | HttpResponse:
        """What a write would store; a response where it is refused."""
        outcome, rows, _ = await self._send(verb, call, is_trial=True)
        trial = outcome.trial
        if trial is None:
            return HttpResponse(outcome.status, outcome.headers, outcome.body)
        key = call.kind.stored_as, call.target.namespace, call.target.name
        before = rows.get(key)
        draft = Draft({}, trial.validation, trial.is_dry_run, before)
        stored = before if trial.is_unchanged else None
        result = WriteResult(trial.raw, stored, unknown=trial.unknown, managed=trial.managed)
        return draft, result

    async def _send(
        self, verb: str, call: RequestContext, *, is_trial: bool
    ) -> tuple[Outcome, Rows, str]:
        """The outcome, and the rows it holds for, which are the current ones."""
        # No client can have written it, and it looks like a revision in every form.
        mark = str(int(self._env.new_uid().replace("-", ""), 16))
        keys = _keys(call)
        for _ in range(ATTEMPTS):
            rows = _current(call, keys)
            message = records.encode(_task(verb, call, rows, mark, is_trial=is_trial))
            is_wanted = call.request.is_wanted or _always
            outcome = await self._worker.run(call.user.name, message, is_wanted)
            if self._plane(call.plane.name) is not call.plane:
                raise errors.PathNotFound  # the plane was deleted, and perhaps created again
            keys += outcome.absent
            now = _current(call, keys)
            if now.keys() == rows.keys() and all(now[key] is row for key, row in rows.items()):
                return outcome, rows, mark
        raise errors.modified(call.kind.resource, call.target.name)


def _always() -> bool:
    return True


def _keys(call: RequestContext) -> tuple[ObjectKey, ...]:
    """What a request about one object depends on, as far as that is known before it runs."""
    kind, target = call.kind, call.target
    resource = kind.stored_as
    keys = [(resource, target.namespace, target.name)] if target.name else []
    if kind.resource.namespaced:
        keys.append((builtin_rules.NAMESPACES, "", target.namespace))
    if not kind.builtin:
        keys.append((builtin_rules.CRDS, "", resource))
    return tuple(keys)


def _current(call: RequestContext, keys: tuple[ObjectKey, ...]) -> Rows:
    store = call.plane.store
    found = {key: row for key in keys if (row := store.get(key)) is not None}
    if call.kind.resource.group_resource == builtin_rules.CRDS:
        # A definition depends on the names of the others of its group.
        for row in store.table(builtin_rules.CRDS).in_order(None):
            found[builtin_rules.CRDS, "", row.name] = row
    return found


def _wire_row(call: RequestContext, key: ObjectKey, row: StoredObject) -> SentRow:
    resource = call.kind.stored_as
    is_own = key == (resource, call.target.namespace, call.target.name)
    raw, managed = call.plane.store.content(row)
    if resource == key[0] == builtin_rules.CRDS and not is_own:
        raw = registry.only_names(raw)
    managed = managed if is_own else ()
    sent = msgspec.structs.replace(row, raw=raw, validated_by=None, managed=managed)
    return SentRow(key[0], sent, is_own and is_validated(call.kind, row))


def _task(verb: str, call: RequestContext, rows: Rows, mark: str, *, is_trial: bool) -> Task:
    request = call.request
    return Task(
        verb,
        call.plane.name,
        call.target,
        call.form,
        request.query,
        dict(request.headers),
        request.body,
        tuple(_wire_row(call, key, row) for key, row in rows.items()),
        mark,
        request.with_managed_fields,
        is_trial,
    )
