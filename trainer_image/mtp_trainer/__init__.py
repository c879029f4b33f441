"""Recursive fine-tuning of a model's own multi-token-prediction (MTP) head.

Importing this package is cheap: nothing here imports torch. The operator imports :mod:`mtp_trainer.contract` only.
"""

__version__ = "0.1.0"
