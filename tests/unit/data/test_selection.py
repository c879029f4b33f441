"""Nothing trains twice, nothing that evaluates trains, and both sides of the split stay apart."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from mtp_trainer.contract import Reason, StageError
from mtp_trainer.data import Document, Sample, prompt_key, select, split


def conversation(*turns: str, system: str | None = None) -> Sample:
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": turn} for i, turn in enumerate(turns)]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    return Sample(f"{turns}", tuple(messages))


def asked(question: str) -> str:
    return prompt_key([{"role": "user", "content": question}])


@pytest.mark.parametrize(("by_prompt", "kept"), [(False, 3), (True, 2)])
def test_duplicates_are_dropped_by_content_or_by_question(by_prompt: bool, kept: int) -> None:
    samples = [conversation("a", "1"), conversation("a", "1"), conversation("a", "2"), conversation("b", "1")]
    dropped: Counter[str] = Counter()
    assert len(select(samples, set(), by_prompt, dropped)) == kept
    assert dropped == {"duplicate": 4 - kept}


@pytest.mark.parametrize(
    "sample",
    [
        conversation("held out", "1"),
        conversation(" held\n out ", "1"),
        conversation("held out", "1", system="be brief"),
        conversation("held out", "1", "and more?", "2"),
        conversation("held out"),
    ],
    ids=["same", "other white space", "other system message", "longer conversation", "without an answer"],
)
def test_what_evaluation_asks_does_not_train(sample: Sample) -> None:
    dropped: Counter[str] = Counter()
    kept = select([sample, conversation("free", "1")], {asked("held out")}, False, dropped)
    assert [one.prompt[0]["content"] for one in kept] == ["free"]
    assert dropped == {"heldOut": 1}


def documents(count: int) -> list[Document]:
    return [Document((number,), (True,), asked(str(number))) for number in range(count)]


def test_the_split_does_not_depend_on_the_order() -> None:
    some = documents(100)
    shuffled = random.Random(1).sample(some, len(some))
    assert set(split(some, 0.1, 42)[1]) == set(split(shuffled, 0.1, 42)[1])


def test_another_seed_splits_otherwise() -> None:
    assert set(split(documents(100), 0.1, 42)[1]) != set(split(documents(100), 0.1, 43)[1])


@pytest.mark.parametrize(("count", "fraction", "validating"), [(100, 0.05, 5), (10, 0.01, 1), (2, 0.9, 1)])
def test_both_sides_get_their_share_and_at_least_one(count: int, fraction: float, validating: int) -> None:
    training, validation = split(documents(count), fraction, 42)
    assert (len(training), len(validation)) == (count - validating, validating)


def test_answers_to_one_prompt_stay_on_one_side() -> None:
    some = [Document((number, answer), (True, True), asked(str(number))) for number in range(20) for answer in range(3)]
    training, validation = split(some, 0.3, 42)
    assert not {document.key for document in training} & {document.key for document in validation}
    assert len(validation) == 18


def test_one_prompt_cannot_be_split() -> None:
    with pytest.raises(StageError, match="has 1 prompts") as caught:
        split(documents(1), 0.5, 42)
    assert caught.value.reason is Reason.DATASET_INVALID
