"""Acceptance predicted without a server: the served chain on the head's own drafts, walked as the server walks."""

from mtp_trainer.predict.acceptance import PredictedAcceptance, predict_acceptance

__all__ = ["PredictedAcceptance", "predict_acceptance"]
