"""vLLM as the trainer uses it: a supervised child process, spoken to over HTTP.

The engine stays behind a process boundary: its crash is an error with a reason, its memory is its own, and the trainer
runs the very server that will serve.
"""

from mtp_trainer.engine.client import Answer, Completions
from mtp_trainer.engine.counters import EngineCounters, parse_counters
from mtp_trainer.engine.responses import RegeneratedResponse, regenerate
from mtp_trainer.engine.server import VLLMServer

__all__ = [
    "Answer",
    "Completions",
    "EngineCounters",
    "RegeneratedResponse",
    "VLLMServer",
    "parse_counters",
    "regenerate",
]
