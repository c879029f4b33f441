"""Which families there are, and which one a checkpoint belongs to."""

from __future__ import annotations

from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.families.descriptor import Config, Family
from mtp_trainer.families.qwen3_5 import QWEN3_5

FAMILIES: tuple[Family, ...] = (QWEN3_5,)


def family_for(config: Config) -> Family:
    """The family of a checkpoint by the ``model_type`` of its ``config.json``.

    Raises:
        StageError: ``UnsupportedFamily``, listing the model types that are supported.
    """
    model_type = config.get("model_type")
    for family in FAMILIES:
        if model_type in family.model_types:
            return family
    supported = ", ".join(name for family in FAMILIES for name in family.model_types)
    raise StageError(
        Reason.UNSUPPORTED_FAMILY,
        f"config.json: model_type is {model_type!r}, whose MTP head this trainer does not know; use one of {supported}",
    )
