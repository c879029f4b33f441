"""The frozen verifier in this process: its states, embedding and output projection.

Packed documents are taken apart, run as a right-padded batch and put back. A gated delta rule and its convolution carry
state from token to token whatever an attention mask says, so a packed row would leak from one document into the next;
and padding to the right of a document is harmless in a causal model.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor


class TransformersVerifier:
    """The verifier's trunk, loaded from a local folder; nothing in it is trained.

    ``dtype``: ``torch.bfloat16`` gives the states that a bfloat16 server sees, its rounding included;
    ``torch.float32`` is faster on CPUs without bfloat16 units, and differs by that rounding only.
    """

    embedding: Tensor
    """``[V, H]``."""
    lm_head: Tensor
    """``[V, H]``: with tied embeddings, the embedding itself."""

    def __init__(
        self,
        path: Path,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        batch_tokens: int = 8192,
    ) -> None:
        """Load the verifier.

        Args:
            path: folder of the checkpoint.
            dtype: of weights and of states.
            device: where it runs.
            batch_tokens: most padded tokens in one forward pass.

        Raises:
            StageError: ``UnsupportedFamily`` or ``CheckpointCorrupt``, naming the folder.
        """
        raise NotImplementedError

    def states(self, tokens: Tensor, documents: Tensor, positions: Tensor) -> Tensor:
        """States ``[R, T, H]`` after the final norm of packed ``tokens[R, T]``; zeros at padding (document -1).

        Raises:
            StageError: ``HiddenStatesNotFinite``, naming row and document.
        """
        raise NotImplementedError

    def embed(self, tokens: Tensor) -> Tensor:
        """Embeddings ``[..., H]`` of ``tokens[...]``."""
        raise NotImplementedError
