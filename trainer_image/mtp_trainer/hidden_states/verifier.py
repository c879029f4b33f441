"""The frozen verifier in this process: its states, embedding and output projection.

Packed documents are taken apart, run as a right-padded batch and put back. A gated delta rule and its convolution carry
state from token to token whatever an attention mask says, so a packed row would leak from one document into the next;
and padding to the right of a document is harmless in a causal model.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM

from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.families import Family, family_for
from mtp_trainer.hidden_states.documents import Span, batches, spans


class TransformersVerifier:
    """The verifier's trunk, loaded from a local folder; nothing in it is trained.

    ``dtype``: ``torch.bfloat16`` gives the states that a bfloat16 server sees, its rounding included;
    ``torch.float32`` is faster on CPUs without bfloat16 units, and differs by that rounding only.
    """

    family: Family
    """Says which state this is: after the final norm, or before."""
    embedding: Tensor
    """``[V, H]``."""
    lm_head: Tensor
    """``[V, H]``: with tied embeddings, the embedding itself."""

    def __init__(
        self,
        path: Path,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        batch_tokens: int = 4096,
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
        try:
            config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StageError(Reason.CHECKPOINT_CORRUPT, f"{path}/config.json: cannot be read ({error})") from error
        self.family = family_for(config)
        try:
            model = AutoModelForCausalLM.from_pretrained(
                path, dtype=dtype, local_files_only=True, use_safetensors=True, trust_remote_code=False
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise StageError(
                Reason.CHECKPOINT_CORRUPT, f"{path}: transformers cannot load it ({error}); give a complete checkpoint"
            ) from error
        model.requires_grad_(False).eval().to(device)
        self.trunk = model.get_decoder()
        self.embedding = model.get_input_embeddings().weight.detach()
        self.lm_head = model.get_output_embeddings().weight.detach()
        self.device, self.batch_tokens = torch.device(device), batch_tokens

    def states(self, tokens: Tensor, documents: Tensor, positions: Tensor) -> Tensor:
        """States ``[R, T, H]`` after the final norm of packed ``tokens[R, T]``; zeros at padding (document -1).

        Raises:
            StageError: ``HiddenStatesNotFinite``, naming the document.
        """
        hidden = torch.zeros(*tokens.shape, self.embedding.shape[1], dtype=self.embedding.dtype, device=self.device)
        tokens, positions = tokens.to(self.device, torch.long), positions.to(self.device, torch.long)
        for group in batches(spans(documents), self.batch_tokens):
            states = self._run(group, tokens, positions)
            for span, state in zip(group, states, strict=True):
                if not state[: span.length].isfinite().all():
                    raise StageError(
                        Reason.HIDDEN_STATES_NOT_FINITE,
                        f"document {span.document}: the verifier's states are not finite; "
                        "check the checkpoint, or use float32",
                    )
                hidden[span.row, span.start : span.end] = state[: span.length]
        return hidden

    @torch.no_grad()
    def _run(self, group: list[Span], tokens: Tensor, positions: Tensor) -> Tensor:
        """States ``[documents, longest, H]`` of one group, padded to the right with token 0."""

        def padded(values: Tensor) -> Tensor:
            return pad_sequence([values[s.row, s.start : s.end] for s in group], batch_first=True)

        # No attention mask: padding is on the right, where a causal model does not look.
        output = self.trunk(input_ids=padded(tokens), position_ids=padded(positions), use_cache=False)
        return output.last_hidden_state

    def embed(self, tokens: Tensor) -> Tensor:
        """Embeddings ``[..., H]`` of ``tokens[...]``."""
        return F.embedding(tokens.to(self.device, torch.long), self.embedding)
