"""The MTP head as a module that can be run one recursion step at a time."""

from mtp_trainer.head.module import MTPHead, StepOutput

__all__ = ["MTPHead", "StepOutput"]
