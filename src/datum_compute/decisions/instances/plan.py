"""The plan of instance control: what to do now, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class DeleteReason(StrEnum):
    """Why an Instance is deleted."""

    STRAY = "Stray"
    """It has no ordinal, or a name that is not its ordinal's."""
    REPLACE_UNREADY = "ReplaceUnready"
    """Of an older template and not ready."""
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
    """Precondition, so that a successor of the same name is not deleted."""
    ordinal: int | None
    reason: DeleteReason


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until this Instance changes."""

    name: str
    ordinal: int | None
    reason: WaitReason


@dataclass(frozen=True, slots=True)
class PatchLabels:
    """Set these labels, and nothing else."""

    name: str
    uid: str
    labels: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Suspend:
    """Mark the Instance, so that its provider stops it."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Take the mark away, so that its provider starts it."""

    name: str
    uid: str
    ordinal: int


Step = Create | Delete | Wait | Resume
Action = Step | PatchLabels | Suspend


@dataclass(frozen=True, slots=True)
class HeldStep:
    """A step that is held back, and why."""

    step: Step
    reason: str


@dataclass(frozen=True, slots=True)
class InstancePlan:
    actions: tuple[Action, ...] = ()
    """To be carried out now."""
    queued: tuple[Step, ...] = ()
    """What follows, in order, once the first action is done."""
    held: tuple[HeldStep, ...] = ()

    @property
    def rolling(self) -> bool:
        """Whether deletions are still queued: what follows them may be held back meanwhile."""
        return any(isinstance(step, Delete) for step in self.queued)

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do or to wait for."""
        return not self.actions and not self.queued and not self.held


NO_PLAN = InstancePlan()
