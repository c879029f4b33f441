"""What the operator fills in where a manifest leaves a choice open. The controller's settings replace these."""

from __future__ import annotations

from dataclasses import dataclass

from mtp_operator import __version__


@dataclass(frozen=True)
class Defaults:
    """Images of the pods, and the operator's own version as it is written to ``status.resolved``."""

    trainer_image: str = f"mtp-trainer:{__version__}"
    engine_image: str = "vllm/vllm-openai:v0.32.0"
    operator_version: str = __version__
