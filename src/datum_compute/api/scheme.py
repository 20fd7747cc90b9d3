"""Which resource a kind is served as, and nothing else."""

from __future__ import annotations

from typing import NamedTuple


class Resource(NamedTuple):
    """A kind as the API serves it. Each kind's module declares one as a constant.

    A tuple because the command line makes some, and could load no dataclass as fast."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    metadata_only: bool = False
    """Whether objects are read without their content, which then is not sent or cached."""

    @property
    def whole(self) -> Resource:
        """The same kind, read with its content."""
        return self._replace(metadata_only=False)

    @property
    def metadata(self) -> Resource:
        """The same kind, read without its content; nothing can be written by it."""
        return self._replace(metadata_only=True)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """``workloads.compute.datumapis.com``, as kubectl and error messages write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def root(self) -> str:
        """The path of the group and version: ``/apis/G/V``, or ``/api/v1``."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of a collection, or with a name of one object, below the plane's root."""
        parts = [self.root]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return self.group_resource
