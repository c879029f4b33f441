"""The train stage: the shipped head, trained as the server will use it."""

from mtp_trainer.train.run import run

__all__ = ["run"]
