"""The shape of a family's description.

A wrong description does not fail: the head loads, trains and serves, and acceptance from the second draft on is low.
So every field names one convention of the engine that will serve, and the parity tests compare each family with it.
Nothing here imports torch, so that inspecting a checkpoint stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Config = Mapping[str, Any]
"""A checkpoint's ``config.json``; of a composite (vision and text) checkpoint, the whole of it."""


@dataclass(frozen=True)
class HeadShape:
    """Sizes of a head's one decoder layer, read from the configuration."""

    hidden_size: int
    intermediate_size: int
    attention_heads: int
    key_value_heads: int
    head_dim: int
    rotary_dim: int
    """Channels of each head, from the first, that carry the position."""
    rope_theta: float
    norm_epsilon: float
    vocab_size: int


@dataclass(frozen=True)
class Family:
    """Conventions of one family of models with a native MTP head."""

    name: str
    model_types: tuple[str, ...]
    """Values of ``model_type`` in ``config.json``."""
    architecture: str
    """vLLM's class for the head."""
    head_prefix: str
    """Every tensor whose name starts so belongs to the head."""
    heads_key: str
    """Configuration key of the number of heads, at the top level or else in ``text_config``."""
    tensor_names: Mapping[str, str]
    """The trainer's parameter name -> the checkpoint's tensor name."""
    concat: Literal["EmbeddingHidden", "HiddenEmbedding"]
    """Order in which the two normed inputs enter the 2H -> H projection."""
    zero_embedding_at_position_zero: bool
    norm: Literal["OnePlusWeight", "Weight"]
    """Root-mean-square norm scaled by ``1 + weight`` (weights stored around 0) or by ``weight``."""
    recycled: Literal["AfterNorm", "BeforeNorm"]
    """What the next step receives: the head's state after or before its final norm."""
    verifier_state: Literal["AfterNorm"]
    """What the verifier hands to the first step: its last state after its final norm, in every family so far. The same
    state under lm_head is the teacher. vLLM's ``extract_hidden_states`` gives the state *before* that norm."""
    embedding_names: tuple[str, ...]
    """Candidates for the verifier's embedding, the first that exists counts (text-only, then composite)."""
    lm_head_names: tuple[str, ...]
    """Candidates for the output projection; with tied embeddings there may be none, and the embedding serves."""
    final_norm_names: tuple[str, ...]
    read_shape: Callable[[Config], HeadShape]
    read_tensors: Callable[[Family, HeadShape], dict[str, tuple[int, ...]]]

    def text_config(self, config: Config) -> Config:
        """The language model's part of ``config``: ``text_config`` where there is one, else all of it."""
        inner = config.get("text_config")
        return inner if isinstance(inner, Mapping) else config

    def num_heads(self, config: Config) -> int:
        """How many MTP heads the configuration declares; 0 where it says nothing."""
        return int(config.get(self.heads_key, self.text_config(config).get(self.heads_key, 0)) or 0)

    def tied_embeddings(self, config: Config) -> bool:
        """Whether the output projection is the embedding (the top level wins, as in transformers and vLLM)."""
        text = self.text_config(config)
        return bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False)))

    def shape(self, config: Config) -> HeadShape:
        """Sizes of the head.

        Raises:
            StageError: ``UnsupportedFamily``, naming the key whose value the trainer cannot follow.
        """
        return self.read_shape(self.text_config(config))

    def expected_head_tensors(self, config: Config) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor that a complete head of this configuration has."""
        return self.read_tensors(self, self.shape(config))
