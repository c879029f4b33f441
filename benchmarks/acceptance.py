"""Recipes against each other: acceptance by position in vLLM, for the same data, steps and seeds.

    python benchmarks/acceptance.py --out build/bench-acceptance

prepares the data once, trains each recipe, serves each head and asks all of them the same held-out prompts. It prints a
table and, last, one JSON line. What was finished in ``--out`` is reused, so that an interrupted benchmark goes on.

``gain_ratio`` is (default − shipped) / (baseline − shipped) in mean acceptance length. The baseline is FastMTP's
recipe (arXiv:2509.18362): hard labels, keys of the same depth, step weights 0.6 ** k.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtp_trainer import prepare, train
from mtp_trainer.contract import AcceptanceCounts, EngineConfig, Stage, Workspace, parse_result, result_json
from mtp_trainer.contract.configs import (
    DatasetConfig,
    EvaluationSets,
    PrepareConfig,
    SamplingConfig,
    SourceConfig,
    TrainConfig,
    TrainingConfig,
)
from mtp_trainer.contract.results import StageResult
from mtp_trainer.engine import Completions, VLLMServer
from mtp_trainer.engine.command import Speculation
from mtp_trainer.evaluate.bootstrap import compare
from mtp_trainer.evaluate.prompts import Prompts, read_prompts
from mtp_trainer.evaluate.rounds import Sampling, drafted_round
from mtp_trainer.measurements import Interval, SetMeasurement

QUICKSTART = Path(__file__).parents[1] / "examples" / "quickstart"
RECIPES: dict[str, dict[str, str]] = {
    "baseline": {"objective": "CE", "kv_context": "SameDepth"},
    "default": {"objective": "Auto", "kv_context": "Serving"},
    **{objective.lower(): {"objective": objective} for objective in ("CE", "KL", "TV", "LK", "E2ETV")},
}


@dataclass(frozen=True)
class Plan:
    """What is compared, from the command line."""

    out: Path
    checkpoint: Path
    data: Path
    samples: int
    prompts: int
    max_tokens: int
    depth: int
    epochs: int
    learning_rate: float
    rows_per_batch: int
    seeds: tuple[int, ...]
    recipes: tuple[str, ...]
    engine: EngineConfig

    @property
    def verifier(self) -> SourceConfig:
        """The checkpoint as a stage's source."""
        return SourceConfig(uri=f"pvc://models/{self.checkpoint.name}", path=self.checkpoint)


def arguments() -> Plan:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for workspaces, logs and results")
    parser.add_argument("--verifier", type=Path, default=QUICKSTART / "verifier")
    parser.add_argument("--data", type=Path, default=QUICKSTART / "data", help="folder of train and heldout.jsonl")
    parser.add_argument("--samples", type=int, default=600, help="conversations to train on")
    parser.add_argument("--prompts", type=int, default=100, help="held-out prompts to measure with")
    parser.add_argument("--max-tokens", type=int, default=160, help="longest answer")
    parser.add_argument("--depth", type=int, default=3, help="draft depth, in training and in serving")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--rows-per-batch", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--recipes", nargs="+", default=["baseline", "default"], choices=RECIPES)
    options = parser.parse_args()
    return Plan(
        out=options.out.absolute(),
        checkpoint=options.verifier.absolute(),
        data=options.data.absolute(),
        samples=options.samples,
        prompts=options.prompts,
        max_tokens=options.max_tokens,
        depth=options.depth,
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        rows_per_batch=options.rows_per_batch,
        seeds=tuple(options.seeds),
        recipes=tuple(options.recipes),
        engine=EngineConfig(max_model_len=1024),
    )


def main() -> None:
    """Prepare, train, measure, print."""
    plan = arguments()
    prepared = prepare_data(plan)
    heads = {(name, seed): train_head(plan, prepared, name, seed) for name in plan.recipes for seed in plan.seeds}
    prompts = read_prompts(prepared.domain_prompts)
    shipped = measure(plan, None, prompts, plan.out / "shipped.json")
    measured = {
        (name, seed): compare(shipped, measure(plan, head, prompts, head.parents[1] / "served.json"), plan.depth, seed)
        for (name, seed), head in heads.items()
    }
    print("\n".join(table(measured)))
    print(json.dumps(summary(measured)))


def prepare_data(plan: Plan) -> Workspace:
    """The verifier's own greedy answers, packed; and the held-out prompts."""
    workspace = Workspace(plan.out / "data")

    def dataset(name: str, limit: int) -> DatasetConfig:
        source = SourceConfig(uri=f"pvc://data/{name}.jsonl", path=plan.data / f"{name}.jsonl")
        return DatasetConfig(source=source, max_samples=limit)

    config = PrepareConfig(
        workspace=workspace.root,
        verifier=plan.verifier,
        dataset=dataset("train", plan.samples),
        evaluation=EvaluationSets(domain=dataset("heldout", plan.prompts)),
        responses="Regenerate",
        sampling=SamplingConfig(temperature=0.0, max_tokens=plan.max_tokens),
        sequence_length=512,
        steps=plan.depth,
        engine=plan.engine,
    )
    finish(workspace, Stage.PREPARE, lambda: prepare.run(config))
    return workspace


def train_head(plan: Plan, prepared: Workspace, name: str, seed: int) -> Path:
    """Train one recipe in a workspace of its own; the head's folder."""
    workspace = Workspace(plan.out / f"{name}-{seed}")
    if not workspace.stage(Stage.PREPARE).is_dir():
        shutil.copytree(prepared.stage(Stage.PREPARE), workspace.stage(Stage.PREPARE))
    recipe = TrainingConfig(
        steps=plan.depth,
        epochs=plan.epochs,
        learning_rate=plan.learning_rate,
        rows_per_batch=plan.rows_per_batch,
        seed=seed,
        **RECIPES[name],  # type: ignore[arg-type]
    )
    config = TrainConfig(workspace=workspace.root, verifier=plan.verifier, training=recipe, contents=("Head",))
    finish(workspace, Stage.TRAIN, lambda: train.run(config))
    return workspace.head


def finish(workspace: Workspace, stage: Stage, run: Callable[[], StageResult]) -> None:
    """Run a stage unless its result is there already."""
    path = workspace.result(stage)
    if path.is_file():
        parse_result(path.read_text(encoding="utf-8"))
        return
    result = run()
    path.write_text(result_json(result), encoding="utf-8")


def measure(plan: Plan, head: Path | None, prompts: Prompts, kept: Path) -> list[AcceptanceCounts]:
    """Counts by prompt of one head in vLLM, greedy."""
    if kept.is_file():
        return [AcceptanceCounts.model_validate(counts) for counts in json.loads(kept.read_text(encoding="utf-8"))]
    speculation = Speculation(plan.depth, head)
    with (
        VLLMServer(plan.checkpoint, kept.with_suffix(".log"), plan.engine, speculation) as server,
        Completions(server.url, plan.engine.concurrency, 600, server.raise_if_crashed) as client,
    ):
        counts = drafted_round(client, prompts, Sampling(plan.max_tokens, 0.0, 0), server.url).counts
    kept.write_text(json.dumps([c.model_dump(mode="json") for c in counts]), encoding="utf-8")
    return counts


def table(measured: dict[tuple[str, int], SetMeasurement]) -> Iterator[str]:
    """Markdown: one line per head."""
    first = next(iter(measured.values()))
    positions = " | ".join(f"position {i}" for i in range(len(first.shipped.rates)))
    yield f"| head | seed | {positions} | tokens per step | gain (95 % interval) |"
    yield "|---|---|" + "---|" * (len(first.shipped.rates) + 2)
    yield f"| shipped | | {_cells(first.shipped.rates)} | {first.shipped.mean_acceptance_length.value:.3f} | |"
    for (name, seed), one in measured.items():
        gain = one.improvement
        yield (
            f"| {name} | {seed} | {_cells(one.tuned.rates)} | {one.tuned.mean_acceptance_length.value:.3f} "
            f"| {gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}) |"
        )


def _cells(rates: Sequence[Interval]) -> str:
    return " | ".join(f"{rate.value:.3f}" for rate in rates)


def summary(measured: dict[tuple[str, int], SetMeasurement]) -> dict[str, object]:
    """The last line: mean gain of each recipe over the seeds, and the ratio of default to baseline."""
    gains: dict[str, list[float]] = {}
    for (name, _), one in measured.items():
        gains.setdefault(name, []).append(one.improvement.value)
    means = {name: sum(values) / len(values) for name, values in gains.items()}
    ratio = means["default"] / means["baseline"] if {"default", "baseline"} <= means.keys() else None
    return {
        "gain_ratio": None if ratio is None else round(ratio, 3),
        "gain": {n: round(v, 4) for n, v in means.items()},
    }


if __name__ == "__main__":
    main()
