"""The publish stage: put what passed the gate where servers find it, named by its digest."""

from mtp_trainer.publish.stage import run

__all__ = ["run"]
