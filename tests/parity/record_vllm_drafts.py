"""Serve a few prompts with vLLM and write down what its drafter was given and what it drafted.

A program of its own, because vLLM binds threads and leaves process-wide state behind:
``python record_vllm_drafts.py VERIFIER HEAD PROMPTS.json OUT.safetensors``.

For prompt i the file holds ``i.tokens[T]`` (prompt and answer), ``i.hidden[T, H]`` (the state at each position
of the last draft that covered it), ``i.anchors[D]`` and ``i.drafts[D, K]``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}

import torch
from safetensors.torch import save_file
from vllm import LLM, SamplingParams
from vllm.v1.spec_decode.llm_base_proposer import SpecDecodeBaseProposer

STEPS, ANSWER_TOKENS = 3, 60

proposals: list[tuple[dict[str, Any], torch.Tensor]] = []
propose = SpecDecodeBaseProposer.propose


def recording(self: SpecDecodeBaseProposer, **inputs: Any) -> torch.Tensor:
    # Copied before the call: the drafter's buffers are the runner's, and are overwritten.
    kept = {name: value.clone() for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    drafts = propose(self, **inputs)
    proposals.append((kept, drafts.clone()))
    return drafts


def main(verifier: str, head: str, prompts: Path, out: Path) -> None:
    SpecDecodeBaseProposer.propose = recording
    engine = LLM(
        model=verifier,
        dtype="bfloat16",
        enforce_eager=True,
        enable_prefix_caching=False,
        max_model_len=512,
        max_num_seqs=1,
        gpu_memory_utilization=0.1,
        skip_tokenizer_init=True,
        speculative_config={"method": "mtp", "model": head, "num_speculative_tokens": STEPS},
    )
    tensors: dict[str, torch.Tensor] = {}
    for i, prompt in enumerate(json.loads(prompts.read_text())):
        proposals.clear()
        sampling = SamplingParams(temperature=0.0, max_tokens=ANSWER_TOKENS, ignore_eos=True, detokenize=False)
        answer = engine.generate([{"prompt_token_ids": prompt}], sampling, use_tqdm=False)[0].outputs[0].token_ids
        tokens = torch.tensor([*prompt, *answer])
        hidden, anchors = None, []
        for inputs, _ in proposals:
            states = inputs["target_hidden_states"].float()
            hidden = torch.zeros(len(tokens), states.shape[1]) if hidden is None else hidden
            # Rows after the one to sample at belong to rejected drafts.
            valid = int(inputs["token_indices_to_sample"][0]) + 1
            places = inputs["target_positions"][:valid]
            inside = places < len(tokens)
            hidden[places[inside]] = states[:valid][inside]
            anchors.append(int(places[-1]))
        tensors |= {f"{i}.tokens": tokens, f"{i}.hidden": hidden, f"{i}.anchors": torch.tensor(anchors)}
        tensors[f"{i}.drafts"] = torch.cat([drafts for _, drafts in proposals]).long()
        tensors[f"{i}.prompt_length"] = torch.tensor(len(prompt))
    save_file(tensors, out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
