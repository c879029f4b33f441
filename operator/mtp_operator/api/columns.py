"""Printer columns: what ``kubectl get`` and ``mtp local get`` show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Column:
    """One column. ``priority`` above 0 is shown by ``-o wide`` only."""

    name: str
    path: str
    type: Literal["string", "integer", "date"] = "string"
    priority: int = 0
    description: str = ""

    def as_schema(self) -> dict[str, object]:
        """The entry of ``additionalPrinterColumns``."""
        entry: dict[str, object] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            entry["description"] = self.description
        if self.priority:
            entry["priority"] = self.priority
        return entry


_READY = Column("READY", '.status.conditions[?(@.type=="Ready")].status')
_REASON = Column("REASON", '.status.conditions[?(@.type=="Ready")].reason')
_AGE = Column("AGE", ".metadata.creationTimestamp", "date")

COLUMNS: dict[str, tuple[Column, ...]] = {
    "MTPFineTune": (
        Column("VERIFIER", ".spec.verifier.uri"),
        Column("STAGE", ".status.stage"),
        Column("PROGRESS", ".status.progress.percent", "integer", description="Percent of the Train stage."),
        Column(
            "ACCEPTANCE",
            ".status.evaluation.tuned.summary",
            description="Drafts accepted by position, tuned head, measured in vLLM.",
        ),
        Column(
            "IMPROVEMENT",
            ".status.evaluation.improvement",
            description="Mean acceptance length, tuned minus shipped.",
        ),
        _READY,
        _REASON,
        _AGE,
        Column("SHIPPED", ".status.evaluation.shipped.summary", priority=1),
        Column("HEAD", ".status.artifact.head.path", priority=1),
    ),
    "SpecDecodeServing": (
        Column("MODEL", ".status.resolved.model.uri"),
        Column("K", ".status.resolved.numSpeculativeTokens", "integer", description="Draft depth in force."),
        Column("ACCEPTANCE", ".status.acceptance.summary", description="Drafts accepted by position in the window."),
        Column("LENGTH", ".status.acceptance.meanAcceptanceLength", description="Tokens per verifier step."),
        _READY,
        Column("REPLICAS", ".status.readyReplicas", "integer", description="Pods that take requests."),
        _REASON,
        _AGE,
        Column("URL", ".status.url", priority=1),
        Column("HEAD", ".status.resolved.head.uri", priority=1),
    ),
}
