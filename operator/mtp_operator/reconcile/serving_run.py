"""A serving: its identity, its specification, and what was seen of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from mtp_operator.api.serving_spec import SpecDecodeServingSpec
from mtp_operator.measure.window import WindowCounts
from mtp_operator.reconcile import read
from mtp_operator.reconcile.fine_tune_run import InvalidSpec, describe, owner_of
from mtp_operator.reconcile.observed import DeploymentView, PodView, Problem
from mtp_operator.render.owner import Owner


@dataclass(frozen=True)
class Serving:
    """A SpecDecodeServing as it was read; ``spec`` is an :class:`InvalidSpec` when this version can't read it."""

    owner: Owner
    spec: SpecDecodeServingSpec | InvalidSpec
    generation: int
    previous: read.Json


@dataclass(frozen=True)
class ServingObserved:
    """What exists for a serving.

    Attributes:
        runs: the MTPFineTunes that it names, as JSON; ``None`` for one that doesn't exist.
        window: counts of the acceptance window; ``None`` before two readings.
        scrape_failure: why a ready pod's counters couldn't be read.
    """

    deployment: DeploymentView | None = None
    pods: tuple[PodView, ...] = ()
    runs: Mapping[str, read.Json | None] = field(default_factory=dict)
    window: WindowCounts | None = None
    scrape_failure: str | None = None
    problem: Problem | None = None


def serving_of(obj: read.Json) -> Serving:
    """The serving of a SpecDecodeServing's JSON."""
    spec: SpecDecodeServingSpec | InvalidSpec
    try:
        spec = SpecDecodeServingSpec.model_validate(read.at(obj, "spec"))
    except ValidationError as error:
        spec = InvalidSpec(describe(error))
    return Serving(
        owner=owner_of(obj, "SpecDecodeServing"),
        spec=spec,
        generation=read.integer(obj, "metadata", "generation"),
        previous=read.mapping(obj, "status"),
    )
