"""The API: pydantic models of both kinds, the only source of the CRDs and of ``docs/api.md``."""

from mtp_operator.api.common import API_VERSION, GROUP, VERSION
from mtp_operator.api.kinds import KINDS, MTPFineTune, SpecDecodeServing, model_of

__all__ = ["API_VERSION", "GROUP", "KINDS", "VERSION", "MTPFineTune", "SpecDecodeServing", "model_of"]
