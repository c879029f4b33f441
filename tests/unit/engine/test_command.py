"""The command line of the vLLM that a stage starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mtp_trainer.contract import EngineConfig, Reason, StageError
from mtp_trainer.engine.command import Speculation, serve_command, serve_environment

MODEL = Path("/models/verifier")


def command(config: EngineConfig | None = None, speculation: Speculation | None = None, cpu: bool = False) -> list[str]:
    return serve_command(MODEL, 8123, config or EngineConfig(), speculation, cpu)


def value(arguments: list[str], flag: str) -> str:
    return arguments[arguments.index(flag) + 1]


def test_the_server_listens_on_loopback_only() -> None:
    assert value(command(), "--host") == "127.0.0.1"
    assert value(command(), "--port") == "8123"


def test_the_shipped_head_is_the_one_in_the_checkpoint() -> None:
    config = json.loads(value(command(speculation=Speculation(3)), "--speculative-config"))
    assert config == {"method": "mtp", "num_speculative_tokens": 3}


def test_a_tuned_head_is_served_as_an_overlay() -> None:
    speculation = Speculation(2, Path("/work/head"), "Probabilistic")
    config = json.loads(value(command(speculation=speculation), "--speculative-config"))
    assert config == {
        "method": "mtp",
        "num_speculative_tokens": 2,
        "model": "/work/head",
        "draft_sample_method": "probabilistic",
    }


def test_without_drafting_no_request_is_asked_for_its_acceptance() -> None:
    assert not {"--speculative-config", "--per-request-spec-decode-metrics"} & set(command())


def test_the_cpu_build_gets_what_it_cannot_do_without() -> None:
    assert {"--enforce-eager", "--no-enable-prefix-caching", "bfloat16"} <= set(command(cpu=True))
    assert not {"--enforce-eager", "--dtype"} & set(command(cpu=False))


def test_the_users_arguments_come_last_and_win() -> None:
    config = EngineConfig(max_model_len=512, gpus=4, args=("--dtype", "float32"))
    arguments = command(config, cpu=True)
    assert arguments[-2:] == ["--dtype", "float32"]
    assert value(arguments, "--max-model-len") == "512"
    assert value(arguments, "--tensor-parallel-size") == "4"


def test_a_missing_vllm_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtp_trainer.engine.command.find_spec", lambda _: None)
    with pytest.raises(StageError, match="serving-cpu") as caught:
        command()
    assert caught.value.reason is Reason.ENGINE_MISSING


def test_the_child_reports_to_nobody_and_reaches_for_no_hub() -> None:
    environment = serve_environment({"PATH": "/bin"}, cpu=True)
    assert environment["VLLM_NO_USAGE_STATS"] == "1"
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert serve_environment({"VLLM_CPU_KVCACHE_SPACE": "4"}, cpu=True)["VLLM_CPU_KVCACHE_SPACE"] == "4"
