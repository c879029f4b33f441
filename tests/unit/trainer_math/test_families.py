from __future__ import annotations

import subprocess
import sys

import pytest

from mtp_trainer.contract import Reason, StageError
from mtp_trainer.families import family_for


def test_a_dense_head_has_fifteen_tensors(config):
    expected = family_for(config).expected_head_tensors(config)
    assert len(expected) == 15
    assert expected["mtp.fc.weight"] == (64, 128)


def test_the_query_projection_has_an_output_gate_beside_each_query(config):
    expected = family_for(config).expected_head_tensors(config)
    assert expected["mtp.layers.0.self_attn.q_proj.weight"] == (2 * 4 * 32, 64)
    assert expected["mtp.layers.0.self_attn.k_proj.weight"] == (2 * 32, 64)


def test_a_composite_checkpoint_is_described_by_its_text_config(config):
    composite = {"model_type": "qwen3_5", "text_config": config, "vision_config": {}}
    family = family_for(composite)
    assert family.expected_head_tensors(composite) == family.expected_head_tensors(config)


@pytest.mark.parametrize(
    ("change", "heads"),
    [({}, 1), ({"mtp_num_hidden_layers": 0}, 0), ({"mtp_num_hidden_layers": None}, 0)],
)
def test_the_number_of_heads_is_read_from_the_top_level(config, change, heads):
    assert family_for(config).num_heads(config | change) == heads


def test_the_number_of_heads_is_read_from_the_text_config_of_a_composite(config):
    composite = {"model_type": "qwen3_5", "text_config": config}
    assert family_for(composite).num_heads(composite) == 1


def test_an_unknown_family_is_refused_with_the_supported_ones():
    with pytest.raises(StageError, match=r"'llama'.*qwen3_5_text, qwen3_5") as caught:
        family_for({"model_type": "llama"})
    assert caught.value.reason is Reason.UNSUPPORTED_FAMILY


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"attention_bias": True}, "attention_bias"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters.rope_type"),
    ],
)
def test_a_variant_that_would_be_read_wrongly_is_refused_by_name(config, change, key):
    with pytest.raises(StageError, match=key):
        family_for(config).shape(config | change)


def test_a_missing_size_is_named(config):
    del config["hidden_size"]
    with pytest.raises(StageError, match="hidden_size is missing"):
        family_for(config).shape(config)


def test_descriptions_need_no_torch():
    code = "import sys, mtp_trainer.families; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
