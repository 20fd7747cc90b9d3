"""The verbs about one object, which read and write nothing else and do not await."""

from __future__ import annotations

from datum_compute.apiserver.printing.renderer import Renderer
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.verbs import deletes, reads, scale, writes
from datum_compute.client.transport import HttpResponse

_VERBS = {
    "get": reads.get,
    "create": writes.create,
    "update": writes.update,
    "patch": writes.patch,
    "delete": deletes.delete,
}
_SCALE_VERBS = {"get": scale.get, "update": scale.update, "patch": scale.patch}


def run(verb: str, call: RequestContext, renderer: Renderer) -> HttpResponse:
    if call.target.subresource == "scale":
        return _SCALE_VERBS[verb](call)
    return _VERBS[verb](call, renderer)
