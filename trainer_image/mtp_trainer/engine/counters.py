"""vLLM's speculative-decoding counters as plain numbers.

Names and meaning: ``vllm/v1/spec_decode/metrics.py``. Counters are per engine (label ``engine``, one per data-parallel
rank) and are summed before anything is divided.
"""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from mtp_trainer.contract import AcceptanceCounts, ExitCode, Reason, StageError

PREFIX = "vllm:spec_decode_"


@dataclass(frozen=True)
class EngineCounters:
    """One reading, summed over engines."""

    drafts: int
    draft_tokens: int
    accepted: tuple[int, ...]
    """Per position: drafts of which at least that many tokens were accepted."""

    def since(self, earlier: EngineCounters) -> AcceptanceCounts:
        """What was counted after ``earlier``.

        Raises:
            StageError: ``EngineCrashed`` when the counters went backwards: the server restarted in between.
        """
        accepted = tuple(now - before for now, before in zip(self.accepted, earlier.accepted, strict=False))
        drafts = self.drafts - earlier.drafts
        if len(self.accepted) != len(earlier.accepted) or drafts < 0 or any(n < 0 for n in accepted):
            raise StageError(
                Reason.ENGINE_CRASHED,
                "vLLM's counters went backwards during a measurement: the server restarted; measure again",
                ExitCode.FAILED,
            )
        return AcceptanceCounts(drafts=drafts, accepted=accepted)


def parse_counters(text: str, url: str) -> EngineCounters:
    """Read the text of ``/metrics``.

    Raises:
        StageError: ``EngineNonsense`` when the counters are absent or contradict each other.
    """
    totals = {"num_drafts": 0, "num_draft_tokens": 0, "num_accepted_tokens": 0}
    positions: dict[int, int] = {}
    seen = set()
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if not sample.name.startswith(PREFIX) or not sample.name.endswith("_total"):
                    continue
                name = sample.name.removeprefix(PREFIX).removesuffix("_total")
                seen.add(name)
                if name == "num_accepted_tokens_per_pos":
                    position = int(sample.labels["position"])
                    positions[position] = positions.get(position, 0) + _count(sample.value)
                elif name in totals:
                    totals[name] += _count(sample.value)
    except (ValueError, OverflowError, KeyError) as error:
        raise StageError(
            Reason.ENGINE_NONSENSE, f"{url}: not Prometheus text ({error}); is this a vLLM server?", ExitCode.FAILED
        ) from error
    if missing := sorted({*totals, "num_accepted_tokens_per_pos"} - seen):
        raise StageError(
            Reason.ENGINE_NONSENSE,
            f"{url}: no {PREFIX}{missing[0]}_total; serve with a speculative config and without --disable-log-stats",
            ExitCode.FAILED,
        )
    accepted = tuple(positions.get(i, 0) for i in range(max(positions) + 1))
    if sum(accepted) != totals["num_accepted_tokens"]:
        raise StageError(
            Reason.ENGINE_NONSENSE,
            f"{url}: accepted per position sum to {sum(accepted)}, the total says {totals['num_accepted_tokens']}",
            ExitCode.FAILED,
        )
    return EngineCounters(totals["num_drafts"], totals["num_draft_tokens"], accepted)


def _count(value: float) -> int:
    if value < 0:
        raise ValueError(f"a count of {value}")
    return int(value)
