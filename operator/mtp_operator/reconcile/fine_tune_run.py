"""A run: its identity, its specification, and what its status remembers.

The status is the run's memory. A stage whose condition is True is done for good, so its Job and pods may vanish.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError

from mtp_operator.api.conditions import FineTuneCondition
from mtp_operator.api.fine_tune_spec import MTPFineTuneSpec
from mtp_operator.reconcile import read
from mtp_operator.reconcile.conditions import FALSE, TRUE, is_true
from mtp_operator.render.owner import Owner
from mtp_trainer.contract import Stage

STAGE_CONDITIONS = {
    Stage.PREPARE: FineTuneCondition.PREPARED,
    Stage.TRAIN: FineTuneCondition.TRAINED,
    Stage.EVALUATE: FineTuneCondition.EVALUATED,
    Stage.PUBLISH: FineTuneCondition.PUBLISHED,
}


@dataclass(frozen=True)
class InvalidSpec:
    """A spec that this version can't read, though the API server took it: the CRDs are of another release."""

    message: str


@dataclass(frozen=True)
class FineTuneRun:
    """An MTPFineTune as it was read; ``spec`` is an :class:`InvalidSpec` when this version can't read it."""

    owner: Owner
    spec: MTPFineTuneSpec | InvalidSpec
    generation: int
    previous: read.Json

    def remembers(self, stage: Stage) -> bool:
        """Whether the status says that the stage ended well."""
        return is_true(self.previous, STAGE_CONDITIONS[stage])

    @property
    def ended(self) -> bool:
        """Whether the status says that the run ended, either way. It never begins again."""
        condition = read.condition(self.previous, FineTuneCondition.SUCCEEDED, "conditions")
        return read.text(condition, "status") in (TRUE, FALSE)

    @property
    def expires(self) -> datetime | None:
        """When the children of an ended run are deleted."""
        ended = read.time(self.previous, "completionTime")
        if isinstance(self.spec, InvalidSpec) or self.spec.ttl_seconds_after_finished is None or ended is None:
            return None
        try:
            return ended + timedelta(seconds=self.spec.ttl_seconds_after_finished)
        except OverflowError:
            return None


def fine_tune_run(obj: read.Json) -> FineTuneRun:
    """The run of an MTPFineTune's JSON."""
    spec: MTPFineTuneSpec | InvalidSpec
    try:
        spec = MTPFineTuneSpec.model_validate(read.at(obj, "spec"))
    except ValidationError as error:
        spec = InvalidSpec(describe(error))
    return FineTuneRun(
        owner=owner_of(obj, "MTPFineTune"),
        spec=spec,
        generation=read.integer(obj, "metadata", "generation"),
        previous=read.mapping(obj, "status"),
    )


def owner_of(obj: read.Json, kind: str) -> Owner:
    """Identity of an object of ours."""
    return Owner(
        kind=kind,
        namespace=read.text(obj, "metadata", "namespace") or "default",
        name=read.text(obj, "metadata", "name"),
        uid=read.text(obj, "metadata", "uid"),
        labels=read.texts(obj, "metadata", "labels"),
    )


def describe(error: ValidationError) -> str:
    """Every field that is wrong, in one sentence."""
    fields = (f"spec.{'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in error.errors())
    return "this version of the operator can't read the spec; install the CRDs of its release. " + "; ".join(fields)
