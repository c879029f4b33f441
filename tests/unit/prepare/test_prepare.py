"""The prepare stage, from files to rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from mtp_trainer.checkpoints import inspect_verifier, load_inspection
from mtp_trainer.contract import (
    DatasetConfig,
    EvaluationSets,
    PrepareConfig,
    Reason,
    SourceConfig,
    StageError,
    Workspace,
    result_json,
)
from mtp_trainer.data import load_rows
from mtp_trainer.prepare import run

Make = Callable[..., PrepareConfig]
TEMPLATE_TOKENS = len("<user\n>\n<assistant\n")  # one token for each byte, one for each special token


def ask(question: str, answer: str | None = None) -> dict[str, Any]:
    turns = [{"role": "user", "content": question}]
    return {"messages": turns if answer is None else [*turns, {"role": "assistant", "content": answer}]}


TRAIN = [ask(f"question {number}", f"answer {number}") for number in range(20)]
HELD_OUT = [ask(f"exam {number}", "never read") for number in range(3)]


@pytest.fixture
def make_config(
    tmp_path: Path, make_checkpoint: Callable[..., Path], write_jsonl: Callable[[str, list[Any]], Path]
) -> Make:
    """A configuration over a tiny verifier and small data sets."""
    verifier = make_checkpoint()

    def dataset(path: Path) -> DatasetConfig:
        return DatasetConfig(source=SourceConfig(uri=f"pvc://data/{path.name}", path=path))

    def make(
        train: list[Any] = TRAIN, held_out: list[Any] = HELD_OUT, general: list[Any] | None = None, **fields: Any
    ) -> PrepareConfig:
        values: dict[str, Any] = {
            "workspace": tmp_path / "workspace",
            "verifier": SourceConfig(uri="pvc://models/verifier", path=verifier),
            "dataset": dataset(write_jsonl("train.jsonl", train)),
            "evaluation": EvaluationSets(
                domain=dataset(write_jsonl("exam.jsonl", held_out)),
                general=dataset(write_jsonl("general.jsonl", general)) if general else None,
            ),
            "responses": "AsIs",
            "sequence_length": 128,
            "validation_fraction": 0.1,
        }
        return PrepareConfig(**{**values, **fields})

    return make


@dataclass
class Answer:
    """An answer as an engine gives it."""

    index: int
    prompt_token_ids: list[int]
    response_token_ids: list[int]
    finish_reason: str = "stop"


class Engine:
    """A verifier that answers with made-up token ids, which no tokenizer would give."""

    def __init__(self, silent: Sequence[int] = (), cut: Sequence[int] = ()) -> None:
        self.silent, self.cut = silent, cut
        self.asked: list[list[list[dict[str, Any]]]] = []

    def __call__(self, *, prompts: list[list[dict[str, Any]]], out: Path, **rest: Any) -> list[Answer]:
        self.asked.append(prompts)
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("a") as file:
            file.write("answered\n")
        return [
            Answer(index, [1, 2, 3], [250, 251, index], "length" if index in self.cut else "stop")
            for index in range(len(prompts))
            if index not in self.silent
        ]


def test_a_run_leaves_rows_prompts_and_the_inspection(make_config: Make) -> None:
    config = make_config(general=[ask("anything", "x")])
    workspace = Workspace(config.workspace)
    result = run(config)
    rows, validation = load_rows(workspace.train_rows), load_rows(workspace.validation_rows)
    assert (result.read, result.kept, result.dropped) == (20, 20, {})
    assert (result.train_documents, result.validation_documents) == (18, 2)
    assert (rows.document_count, validation.document_count) == (18, 2)
    assert (result.rows, result.train_tokens) == (len(rows), rows.token_count)
    assert result.trained_tokens == rows.trained_token_count
    assert (result.family, result.head_tensors) == ("Qwen3.5", 15)
    assert (result.domain_prompts, result.general_prompts) == (3, 1)
    inspection = load_inspection(workspace.inspection)
    assert inspection == inspect_verifier(config.verifier.path or Path())
    assert result.verifier_digest == inspection.digest
    assert len(result_json(result)) < 4096


def test_held_out_prompts_are_kept_without_their_answers(make_config: Make) -> None:
    config = make_config(held_out=[*HELD_OUT, HELD_OUT[0]])
    run(config)
    lines = [json.loads(line) for line in Workspace(config.workspace).domain_prompts.read_text().splitlines()]
    assert [line["messages"] for line in lines] == [sample["messages"][:1] for sample in HELD_OUT]
    assert all(len(line["promptTokenIds"]) == TEMPLATE_TOKENS + len("exam 0") for line in lines)


def test_what_is_left_out_is_counted_by_reason(make_config: Make) -> None:
    train = [*TRAIN, TRAIN[0], ask("exam 1", "leak"), ask("nobody answers"), ask("long", "x" * 200)]
    result = run(make_config(train=train))
    assert (result.read, result.kept) == (24, 20)
    assert result.dropped == {"duplicate": 1, "heldOut": 1, "noAssistant": 1, "tooLong": 1}


def test_a_data_set_that_is_mostly_dropped_is_warned_about(make_config: Make) -> None:
    result = run(make_config(train=[*TRAIN[:3], *[TRAIN[0]] * 10]))
    assert result.warnings == ("only 3 of 13 samples are used: duplicate: 10",)


def test_a_second_run_with_the_same_inputs_writes_nothing(make_config: Make) -> None:
    config = make_config()
    first = run(config)
    stage = Workspace(config.workspace).train_rows.parent
    before = {path.name: path.stat().st_mtime_ns for path in stage.iterdir()}
    assert run(config) == first
    assert {path.name: path.stat().st_mtime_ns for path in stage.iterdir()} == before


def test_a_damaged_output_is_made_again(make_config: Make) -> None:
    config = make_config()
    first = run(config)
    Workspace(config.workspace).train_rows.write_bytes(b"half")
    assert run(config) == first
    assert load_rows(Workspace(config.workspace).train_rows).document_count == 18


def test_other_inputs_are_prepared_anew(make_config: Make) -> None:
    first = run(make_config(general=[ask("anything")]))
    second = run(make_config(train=TRAIN[:10]))
    assert (first.read, second.read) == (20, 10)
    assert first.data_digest != second.data_digest
    assert not Workspace(make_config().workspace).general_prompts.exists()


def test_the_rows_do_not_depend_on_the_order_of_the_lines(make_config: Make) -> None:
    assert run(make_config()).data_digest == run(make_config(train=TRAIN[::-1])).data_digest


def test_regenerated_answers_reach_the_rows_as_the_very_tokens(make_config: Make) -> None:
    engine = Engine()
    config = make_config(responses="Regenerate")
    result = run(config, engine)
    assert engine.asked == [[sample["messages"][:1] for sample in TRAIN]]
    rows = load_rows(Workspace(config.workspace).train_rows)
    assert rows.document_count == 18
    for number in range(18):
        tokens = rows.tokens[rows.documents == number]
        assert tokens[:5].tolist() == [1, 2, 3, 250, 251]
        assert rows.loss_mask[rows.documents == number].tolist() == [False] * 3 + [True] * 3
    assert torch.unique(rows.tokens[rows.positions == 5]).numel() == 18
    assert result.trained_tokens == 18 * 3


def test_questions_are_asked_once_and_never_those_of_evaluation(make_config: Make) -> None:
    engine = Engine()
    train = [*TRAIN, ask("question 0", "another answer"), ask("exam 0", "leak"), ask("without any answer")]
    result = run(make_config(train=train, responses="Regenerate"), engine)
    assert len(engine.asked[0]) == 21
    assert result.dropped == {"duplicate": 1, "heldOut": 1}


def test_answers_that_failed_or_were_cut_are_counted(make_config: Make) -> None:
    result = run(make_config(responses="Regenerate"), Engine(silent=[0, 1], cut=[2, 3, 4]))
    assert (result.kept, result.dropped) == (18, {"regenerationFailed": 2})
    assert result.warnings == ("3 of 18 answers reached sampling.maxTokens (2048)",)


def test_a_prompt_that_fills_a_row_is_not_asked(make_config: Make) -> None:
    engine = Engine()
    result = run(make_config(train=[*TRAIN, ask("x" * 200)], responses="Regenerate"), engine)
    assert len(engine.asked[0]) == 20
    assert result.dropped == {"tooLong": 1}


def test_answers_are_kept_for_the_same_verifier_only(make_config: Make) -> None:
    config = make_config(responses="Regenerate")
    run(config, Engine())
    run(config.model_copy(update={"seed": 1}), Engine())
    regenerated = Workspace(config.workspace).regenerated
    assert regenerated.read_text() == "answered\nanswered\n"
    folder = config.verifier.path or Path()
    (folder / "config.json").write_text((folder / "config.json").read_text().replace("}", ', "note": 1}'))
    run(config, Engine())
    assert regenerated.read_text() == "answered\n"


LEFT = {
    "no assistant": ([ask("1"), ask("2")], ["noAssistant: 2", "role assistant", "responses: Regenerate"]),
    "too long": (
        [ask("1", "x" * 200), ask("2", "x" * 300)],
        [
            "tooLong: 2",
            f"lengths are {TEMPLATE_TOKENS + 202} to {TEMPLATE_TOKENS + 302}",
            "a row has 128",
            "sequenceLength",
        ],
    ),
    "only evaluation's": ([HELD_OUT[0], HELD_OUT[1]], ["heldOut: 2", "name different datasets"]),
    "one prompt": ([TRAIN[0]], ["1 prompts"]),
    "text too short": ([{"text": "a"}], ["tooShort: 1"]),
}


@pytest.mark.parametrize(("train", "parts"), LEFT.values(), ids=LEFT.keys())
def test_a_data_set_of_which_nothing_is_left_says_why(make_config: Make, train: list[Any], parts: list[str]) -> None:
    config = make_config(train=train)
    with pytest.raises(StageError) as caught:
        run(config)
    assert caught.value.reason is Reason.DATASET_INVALID
    assert all(part in caught.value.message for part in parts), caught.value.message
    assert not Workspace(config.workspace).train_rows.exists()


def test_plain_text_cannot_be_answered(make_config: Make) -> None:
    with pytest.raises(StageError, match=r"train\.jsonl:1: plain text has no prompt.*set responses: AsIs"):
        run(make_config(train=[{"text": "once"}], responses="Regenerate"), Engine())


def test_plain_text_trains_as_it_is(make_config: Make) -> None:
    assert run(make_config(train=[{"text": f"text {number}"} for number in range(4)])).kept == 4


def test_plain_text_cannot_evaluate(make_config: Make) -> None:
    with pytest.raises(StageError, match=r"exam\.jsonl:1: asks nothing"):
        run(make_config(held_out=[{"text": "once"}]))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"train": []}, Reason.DATASET_EMPTY),
        ({"held_out": []}, Reason.DATASET_EMPTY),
        ({"train": [*TRAIN, {"question": "1"}]}, Reason.DATASET_INVALID),
    ],
)
def test_bad_data_leave_the_workspace_empty(make_config: Make, bad: dict[str, Any], reason: Reason) -> None:
    config = make_config(**bad)
    with pytest.raises(StageError) as caught:
        run(config)
    assert caught.value.reason is reason
    assert not config.workspace.exists()


def test_a_bad_verifier_is_found_before_the_data_are_read(make_config: Make) -> None:
    config = make_config(train=[])
    ((config.verifier.path or Path()) / "model.safetensors").write_bytes(b"half")
    with pytest.raises(StageError) as caught:
        run(config)
    assert caught.value.reason is Reason.CHECKPOINT_CORRUPT


def test_a_full_disk_is_named_and_leaves_no_half_rows(make_config: Make, full_disk: Callable[[int], Any]) -> None:
    config = make_config()
    with pytest.raises(StageError) as caught, full_disk(4200):
        run(config)
    assert caught.value.reason is Reason.DISK_FULL
    left = [path.name for path in Workspace(config.workspace).train_rows.parent.iterdir()]
    assert "train.safetensors" not in left
    assert not [name for name in left if "partial" in name]


def test_a_workspace_that_may_not_be_written_is_named(tmp_path: Path, make_config: Make) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StageError) as caught:
        run(make_config(workspace=tmp_path / "file"))
    assert caught.value.reason is Reason.OUTPUT_NOT_WRITABLE
