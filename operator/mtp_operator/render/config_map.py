"""The stage's configuration as a file in its pod."""

from __future__ import annotations

from typing import Any

from mtp_operator.api.fine_tune_spec import MTPFineTuneSpec
from mtp_operator.render import labels
from mtp_operator.render.defaults import Defaults
from mtp_operator.render.owner import Owner, child_metadata
from mtp_operator.render.stage_config import stage_config
from mtp_trainer.contract import Stage

CONFIG_FILE = "stage.json"
CONFIG_MOUNT = "/etc/mtp/stage"


def stage_child_name(run: str, stage: Stage) -> str:
    """Name of a stage's Job and ConfigMap."""
    return f"{run}-{stage.value.lower()}"


def stage_config_map(owner: Owner, spec: MTPFineTuneSpec, stage: Stage, defaults: Defaults) -> dict[str, Any]:
    """Immutable, as the run is."""
    config = stage_config(owner, spec, stage, defaults)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(owner, stage_child_name(owner.name, stage), labels.for_run(owner.name, stage.value)),
        "immutable": True,
        "data": {CONFIG_FILE: config.model_dump_json(by_alias=True, exclude_none=True, indent=2) + "\n"},
    }
