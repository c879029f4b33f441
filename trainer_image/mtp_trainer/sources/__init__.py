"""Where checkpoints and datasets come from: mounted volumes and the Hugging Face Hub."""

from mtp_trainer.sources.hub import download
from mtp_trainer.sources.resolve import Resolved, resolve, verifier_folder

__all__ = ["Resolved", "download", "resolve", "verifier_folder"]
