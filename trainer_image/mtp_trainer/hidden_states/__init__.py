"""The verifier's hidden states, computed in this process with ``transformers``."""

from mtp_trainer.hidden_states.verifier import TransformersVerifier

__all__ = ["TransformersVerifier"]
