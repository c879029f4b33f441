"""The command line and environment of the vLLM that a stage starts for itself. Pure."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mtp_trainer.contract import EngineConfig, Reason, StageError
from mtp_trainer.contract.configs import DraftSampling

DRAIN_SECONDS = 30
"""``--shutdown-timeout``; at 0 vLLM leaves streams in flight hanging for ever."""

CPU_ARGS = ("--enforce-eager", "--no-enable-prefix-caching", "--dtype", "bfloat16")
"""No Triton kernel for the prefix caching of hybrid models; linear attention in bfloat16 only."""


@dataclass(frozen=True)
class Speculation:
    """How the server drafts. ``head`` is an overlay's folder, None for the head in the checkpoint."""

    tokens: int
    head: Path | None = None
    sampling: DraftSampling = "Greedy"

    def json(self) -> str:
        """Value of ``--speculative-config``."""
        config: dict[str, object] = {"method": "mtp", "num_speculative_tokens": self.tokens}
        if self.head is not None:
            config["model"] = str(self.head)
        if self.sampling == "Probabilistic":
            config["draft_sample_method"] = "probabilistic"
        return json.dumps(config)


def serve_command(
    model: Path,
    port: int,
    config: EngineConfig,
    speculation: Speculation | None,
    cpu: bool,
    trust_remote_code: bool = False,
) -> list[str]:
    """``vllm serve`` with this interpreter.

    Raises:
        StageError: ``EngineMissing`` when vLLM isn't installed.
    """
    if find_spec("vllm") is None:
        raise StageError(
            Reason.ENGINE_MISSING,
            "vLLM is not installed in this environment; use the trainer image, or install the extra 'serving-cpu'",
        )
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "model"]
    command += ["--shutdown-timeout", str(DRAIN_SECONDS), "--max-num-seqs", str(config.concurrency)]
    if config.max_model_len is not None:
        command += ["--max-model-len", str(config.max_model_len)]
    if cpu:
        command += CPU_ARGS
    if config.gpus > 1:
        command += ["--tensor-parallel-size", str(config.gpus)]
    if trust_remote_code:
        command += ["--trust-remote-code"]
    if speculation is not None:
        command += ["--speculative-config", speculation.json(), "--per-request-spec-decode-metrics", "summary"]
    return [*command, *config.args]


def serve_environment(base: Mapping[str, str], cpu: bool) -> dict[str, str]:
    """Environment of the child: offline, without usage reports."""
    environment = {
        **base,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    if cpu:
        environment.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    return environment
