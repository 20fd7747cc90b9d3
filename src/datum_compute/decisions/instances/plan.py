"""What instance control wants done: what may happen now, and what must wait its turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class DeleteReason(StrEnum):
    """Why an Instance is deleted."""

    STRAY = "Stray"
    """Its ordinal cannot be told, or another has it."""
    REPLACE_UNREADY = "ReplaceUnready"
    """Of an older template and not serving anyway."""
    RECREATE = "Recreate"
    """Of an older template and ready: the roll."""
    SCALE_DOWN = "ScaleDown"
    """Its ordinal is no longer wanted."""
    DRAIN = "Drain"
    """None is wanted."""

    @property
    def is_roll(self) -> bool:
        """Whether an Instance of the current template takes its place."""
        return self in (DeleteReason.REPLACE_UNREADY, DeleteReason.RECREATE)


class WaitReason(StrEnum):
    BEING_DELETED = "BeingDeleted"
    NOT_READY = "NotReady"


@dataclass(frozen=True, slots=True)
class Create:
    ordinal: int
    name: str


@dataclass(frozen=True, slots=True)
class Delete:
    name: str
    uid: str
    """Precondition: a successor of the same name is not meant."""
    ordinal: int | None
    reason: DeleteReason


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do but to wait for this Instance."""

    name: str
    ordinal: int | None
    reason: WaitReason


@dataclass(frozen=True, slots=True)
class PatchLabels:
    """Put these labels on, and touch nothing else."""

    name: str
    uid: str
    labels: Mapping[str, str] = field(hash=False)


Step = Create | Delete | Wait
Action = Step | PatchLabels


@dataclass(frozen=True, slots=True)
class HeldStep:
    """A step that will come, and what it waits for."""

    step: Step
    reason: str


@dataclass(frozen=True, slots=True)
class InstancePlan:
    now: tuple[Action, ...] = ()
    queued: tuple[Step, ...] = ()
    """What follows, in order, once the first of ``now`` is done with."""
    queued_behind: str = ""
    """What the line waits for."""
    forbidden: tuple[HeldStep, ...] = ()
    """What may not happen for a reason of its own."""

    @property
    def held_back(self) -> tuple[HeldStep, ...]:
        """Everything that must wait, each with its reason."""
        behind = [HeldStep(step, self.queued_behind) for step in self.queued]
        return (*behind, *self.forbidden)

    @property
    def rolling(self) -> bool:
        """Whether deletions are still queued: what follows them may be held back meanwhile."""
        return any(isinstance(step, Delete) for step in self.queued)

    @property
    def settled(self) -> bool:
        """Whether the world is as wanted, so that there is nothing to do or to wait for."""
        return not self.now and not self.queued and not self.forbidden
