"""What the recursion minimises. Formulas are in the docstrings, with their sources."""

from mtp_trainer.objectives.losses import AUTO_OBJECTIVE, resolve

__all__ = ["AUTO_OBJECTIVE", "resolve"]
