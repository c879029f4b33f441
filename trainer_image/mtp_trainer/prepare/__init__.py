"""The prepare stage: check the verifier, and make rows of tokens and held-out prompts out of datasets."""

from mtp_trainer.prepare.stage import run

__all__ = ["run"]
