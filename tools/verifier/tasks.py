"""The conversations the quickstart verifier learns from: easy task families of ``reasoning-gym``, in chat form.

A model of a few million parameters must answer most of them after half an hour on two cores, so numbers are small,
questions keep only their varying part, and answers show their steps: each token then follows from few others.
``gsm_symbolic`` is the domain that a fine-tune specialises on; its own worked answers are used as they are.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import reasoning_gym
from reasoning_gym.arithmetic.leg_counting import ANIMALS

DOMAIN = "gsm_symbolic"

DOMAIN_TEMPLATES = (
    *(3, 6, 8, 9, 12, 18, 20, 29, 31, 33, 34, 39, 40, 41, 44, 46, 47, 48, 49, 53, 55, 56, 57, 62, 64, 67, 69, 71, 75),
    *(78, 80, 81, 82, 83, 84, 85, 89, 91, 95),
)
"""Templates of ``gsm_symbolic`` with a question under about 300 characters and an answer of about 120 to 350."""


@dataclass(frozen=True)
class Task:
    """One question with the answer the verifier should write; ``family`` names the generator."""

    family: str
    question: str
    answer: str

    def messages(self) -> list[dict[str, str]]:
        """The conversation in chat form."""
        return [{"role": "user", "content": self.question}, {"role": "assistant", "content": self.answer}]


@dataclass(frozen=True)
class Family:
    """A generator's settings, its share of general training, and how its entries become question and answer."""

    share: float
    settings: dict[str, Any]
    build: Callable[[dict[str, Any]], tuple[str, str] | None]


def times(left: int, right: int) -> str:
    """``left × right`` with a factor of two digits split into tens and ones; ``right`` has one digit."""
    tens, ones = left // 10 * 10, left % 10
    if not tens or not ones:
        return f"{left} × {right} = {left * right}"
    return f"{left} × {right} = {tens} × {right} + {ones} × {right} = {tens * right} + {ones * right} = {left * right}"


def chain_sum(entry: dict[str, Any]) -> tuple[str, str]:
    parts = entry["metadata"]["expression"].split()
    total, lines = int(parts[0]), []
    for sign, number in zip(parts[1::2], map(int, parts[2::2]), strict=True):
        result = total + number if sign == "+" else total - number
        lines.append(f"{total} {sign} {number} = {result}")
        total = result
    return f"Calculate step by step: {' '.join(parts)}", "\n".join([*lines, f"The result is {total}."])


def products(entry: dict[str, Any]) -> tuple[str, str]:
    numbers = [int(part) for part in entry["metadata"]["expression"].split(" * ")]
    total, lines = numbers[0], []
    for number in numbers[1:]:
        lines.append(times(total, number))
        total *= number
    return f"Multiply: {' × '.join(map(str, numbers))}", "\n".join([*lines, f"The product is {total}."])


def leg_counting(entry: dict[str, Any]) -> tuple[str, str]:
    total, lines = 0, []
    for animal, count in entry["metadata"]["animals"].items():
        legs = ANIMALS[animal]
        lines.append(f"Each {animal} has {legs} legs: {count} × {legs} = {count * legs}")
        if len(lines) > 1:
            lines.append(f"{total} + {count * legs} = {total + count * legs}")
        total += count * legs
    question = entry["question"].strip().splitlines()[-1].removeprefix("Now, how")
    return f"How{question}", "\n".join([*lines, f"There are {total} legs in total."])


def number_sorting(entry: dict[str, Any]) -> tuple[str, str]:
    before, after = (
        [str(round(float(x))) for x in entry["metadata"][k]] for k in ("original_numbers", "sorted_numbers")
    )
    direction = entry["metadata"]["direction"]
    return (
        f"Sort these numbers in {direction} order: {', '.join(before)}",
        f"The {len(before)} numbers in {direction} order are:\n{', '.join(after)}",
    )


def number_filtering(entry: dict[str, Any]) -> tuple[str, str]:
    data = entry["metadata"]
    bound = int(data["filter_value"])
    kept = [int(x) for x in data["result"]]
    lines = []
    for number in map(int, data["original_numbers"]):
        relation = "<" if number < bound else ">" if number > bound else "="
        lines.append(f"{number} {relation} {bound}: {'keep' if number in kept else 'remove'}")
    question = entry["question"].splitlines()[0].replace("'", "")
    return question, "\n".join([*lines, f"Result: [{', '.join(map(str, kept))}]"])


def word_sequence_reversal(entry: dict[str, Any]) -> tuple[str, str]:
    words = entry["metadata"]["words"]
    question = entry["question"].strip().splitlines()[-1]
    return question, f"From last to first:\n{', '.join(reversed(words))}"


def needle_haystack(entry: dict[str, Any]) -> tuple[str, str]:
    asked = entry["metadata"]["question"].removesuffix(" Reply only with a name.")
    body = entry["question"].split("\n")[0].strip()
    fact = asked.removeprefix("Who ").removesuffix("?")
    return f"{body}\n{asked}", f"{entry['answer']} {fact}.\nThe answer is {entry['answer']}."


def prime_factorization(entry: dict[str, Any]) -> tuple[str, str]:
    number, factors = entry["metadata"]["number"], entry["metadata"]["factors"]
    rest, lines = number, []
    for factor in factors[:-1]:
        lines.append(f"{rest} = {factor} × {rest // factor}")
        rest //= factor
    lines.append(f"{rest} is prime.")
    question = f"Find the prime factorization of {number}."
    return question, "\n".join([*lines, f"{number} = {' × '.join(map(str, factors))}"])


def simple_equations(entry: dict[str, Any]) -> tuple[str, str] | None:
    match = re.fullmatch(r"(\d+)\*(\w) ([+-]) (\d+) = (\d+)", entry["metadata"]["equation"])
    if match is None:
        return None
    factor, name, sign, constant, right = match.groups()
    opposite = "-" if sign == "+" else "+"
    moved = int(right) - int(constant) if sign == "+" else int(right) + int(constant)
    lines = [
        f"{factor}*{name} = {right} {opposite} {constant} = {moved}",
        f"{name} = {moved} / {factor} = {entry['answer']}",
    ]
    return entry["question"], "\n".join([*lines, f"So {name} = {entry['answer']}."])


def family_relationships(entry: dict[str, Any]) -> tuple[str, str]:
    data = entry["metadata"]
    question = entry["question"].replace("\n\n", "\n")
    question = re.sub(r" (Respond only|Answer with a single).*", "", question)
    return question, f"{data['person1']} is the {data['relationship']} of {data['person2']}."


def domain(entry: dict[str, Any]) -> tuple[str, str] | None:
    answer = entry["metadata"]["answer_cot"].strip()
    if not answer.splitlines()[-1].startswith("####"):
        answer += f"\n#### {entry['answer']}"
    return entry["question"].removesuffix(" Give the result as your final answer. Do not include units."), answer


FAMILIES: dict[str, Family] = {
    "chain_sum": Family(0.13, {"min_terms": 2, "max_terms": 4, "min_digits": 1, "max_digits": 2}, chain_sum),
    "products": Family(0.10, {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 1}, products),
    "leg_counting": Family(
        0.13, {"min_animals": 2, "max_animals": 3, "min_instances": 1, "max_instances": 9}, leg_counting
    ),
    "number_sorting": Family(
        0.09,
        {"min_numbers": 3, "max_numbers": 6, "min_decimals": 0, "max_decimals": 0, "min_value": 0, "max_value": 99},
        number_sorting,
    ),
    "number_filtering": Family(
        0.10,
        {"min_numbers": 3, "max_numbers": 6, "min_decimals": 0, "max_decimals": 0, "min_value": 0, "max_value": 99},
        number_filtering,
    ),
    "word_sequence_reversal": Family(0.10, {"min_words": 3, "max_words": 5}, word_sequence_reversal),
    "needle_haystack": Family(0.11, {"min_num_statements": 3, "max_num_statements": 4}, needle_haystack),
    "prime_factorization": Family(0.07, {"min_value": 2, "max_value": 200}, prime_factorization),
    "simple_equations": Family(
        0.06,
        {"min_terms": 2, "max_terms": 2, "min_value": 1, "max_value": 12, "operators_weights": [0.5, 0.5, 0.0]},
        simple_equations,
    ),
    "family_relationships": Family(0.07, {"min_family_size": 4, "max_family_size": 4}, family_relationships),
    DOMAIN: Family(0.04, {}, domain),
}
"""Shares are of conversations, not of tokens, and sum to one."""


def generate(family: str, count: int, seed: int) -> Iterator[Task]:
    """At most ``count`` tasks of a family; an entry's own seed is ``seed`` plus its number, so keep ranges apart."""
    recipe = FAMILIES[family]
    dataset = reasoning_gym.create_dataset(family, seed=seed, size=count, **recipe.settings)
    if family == DOMAIN:
        dataset.task_indices = random.Random(seed).choices(DOMAIN_TEMPLATES, k=count)
    for number in range(count):
        pair = recipe.build(dataset[number])
        if pair is not None:
            yield Task(family, *pair)


def final_answer(text: str) -> str:
    """What is compared when accuracy is measured: the last line of an answer."""
    return text.strip().splitlines()[-1] if text.strip() else ""
