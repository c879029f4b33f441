"""The recursion that trains the head as it is served, and the loss over it: a library that knows no loop.

Data sets, optimisers and process groups are the caller's; a fine-tuning loop and a reinforcement-learning loop call the
same function.
"""

from mtp_trainer.recursion.batch import Anchors, Batch
from mtp_trainer.recursion.loss import RecursionOutput, recursive_loss
from mtp_trainer.recursion.states import recursive_states

__all__ = ["Anchors", "Batch", "RecursionOutput", "recursive_loss", "recursive_states"]
