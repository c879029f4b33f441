"""Measure the shipped head against the tuned one in vLLM, and decide whether the tuned one may be published."""

from mtp_trainer.evaluate.run import run

__all__ = ["run"]
