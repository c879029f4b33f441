"""The head, its recursion and the walk against what vLLM's drafter did, draft by draft, on the quickstart verifier.

bfloat16 rounds differently in different kernels, so a few near ties between tokens fall the other way; a wrong one
of the conventions (order of concatenation, norm, position, keys) changes many more drafts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoTokenizer

from mtp_trainer.families import family_for
from mtp_trainer.head import MTPHead
from mtp_trainer.hidden_states import TransformersVerifier
from mtp_trainer.predict import predict_acceptance
from mtp_trainer.recursion import Batch

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
VERIFIER = QUICKSTART / "verifier"
PROMPTS, STEPS = 6, 3


@dataclass(frozen=True)
class Recorded:
    """One prompt as vLLM served it."""

    tokens: Tensor
    hidden: Tensor
    anchors: list[int]
    drafts: list[list[int]]
    prompt_length: int

    @property
    def batch(self) -> Batch:
        place = torch.arange(len(self.tokens))
        return Batch(
            hidden=self.hidden[None],
            tokens=self.tokens[None],
            loss_mask=(place >= self.prompt_length)[None],
            documents=torch.zeros_like(place)[None],
            positions=place[None],
        )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> list[Recorded]:
    folder = tmp_path_factory.mktemp("vllm")
    tokenizer = AutoTokenizer.from_pretrained(VERIFIER)
    prompts = []
    for line in (QUICKSTART / "data" / "heldout.jsonl").read_text().splitlines()[:PROMPTS]:
        text = tokenizer.apply_chat_template(
            json.loads(line)["messages"][:1], tokenize=False, add_generation_prompt=True
        )
        prompts.append(tokenizer.encode(text, add_special_tokens=False))
    (folder / "prompts.json").write_text(json.dumps(prompts))
    program, out = Path(__file__).with_name("record_vllm_drafts.py"), folder / "drafts.safetensors"
    subprocess.run([sys.executable, program, VERIFIER, folder / "prompts.json", out], check=True)
    tensors = load_file(out)
    return [
        Recorded(
            tokens=tensors[f"{i}.tokens"],
            hidden=tensors[f"{i}.hidden"],
            anchors=tensors[f"{i}.anchors"].tolist(),
            drafts=tensors[f"{i}.drafts"].tolist(),
            prompt_length=int(tensors[f"{i}.prompt_length"]),
        )
        for i in range(PROMPTS)
    ]


@pytest.fixture(scope="module")
def verifier() -> TransformersVerifier:
    return TransformersVerifier(VERIFIER)


@pytest.fixture(scope="module")
def head(verifier) -> MTPHead:
    config = json.loads((VERIFIER / "config.json").read_text())
    with safe_open(VERIFIER / "model.safetensors", "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys() if name.startswith("mtp.")}  # noqa: SIM118
    return MTPHead.from_tensors(family_for(config), config, tensors, compute_dtype=torch.bfloat16)


@pytest.fixture(scope="module")
def weight(verifier) -> Tensor:
    return verifier.lm_head.bfloat16()


def test_vllm_hands_the_drafter_the_state_whose_argmax_is_the_next_token(recorded, weight):
    right = total = 0
    for one in recorded:
        places = torch.arange(one.prompt_length - 1, one.anchors[-1])
        right += int(((one.hidden[places].bfloat16() @ weight.T).argmax(-1) == one.tokens[places + 1]).sum())
        total += len(places)
    assert right / total > 0.97


def test_the_verifiers_states_are_those_that_vllm_hands_over(recorded, verifier):
    for one in recorded:
        batch, covered = one.batch, one.anchors[-1]
        states = verifier.states(batch.tokens, batch.documents, batch.positions)[0, :covered]
        error = (states - one.hidden[:covered]).norm() / one.hidden[:covered].norm()
        assert error < 0.02


def test_drafts_equal_vllms(recorded, head, weight):
    equal, total = [0] * STEPS, 0
    for one in recorded:
        predicted = predict_acceptance(head, one.batch, weight, weight, STEPS, every_anchor=True)
        mine = {
            anchor: draft
            for (_, anchor), draft in zip(predicted.anchors.tolist(), predicted.draft_tokens.tolist(), strict=True)
        }
        for anchor, draft in zip(one.anchors, one.drafts, strict=True):
            if anchor in mine:
                total += 1
                for i in range(STEPS):
                    equal[i] += mine[anchor][: i + 1] == draft[: i + 1]
    assert total > 100
    assert all(count / total > 0.95 for count in equal), [count / total for count in equal]


def test_the_walk_goes_from_anchor_to_anchor_as_vllm_does(recorded, head, weight):
    predicted, served = torch.zeros(STEPS + 1), torch.zeros(STEPS + 1)
    for one in recorded:
        found = predict_acceptance(head, one.batch, weight, weight, STEPS)
        predicted += torch.tensor([found.drafts, *found.accepted])
        end = len(one.tokens) - STEPS - 1
        # What vLLM accepted shows in where it drafted next.
        for anchor, following in zip(one.anchors, [*one.anchors[1:], None], strict=True):
            if anchor < end and following is not None:
                served += torch.tensor([1, *(following - anchor - 1 > i for i in range(STEPS))])
    assert served[0] > 100
    difference = (predicted[1:] / predicted[0] - served[1:] / served[0]).abs()
    assert float(difference.max()) < 0.03, (predicted.tolist(), served.tolist())
