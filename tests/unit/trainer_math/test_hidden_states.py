from __future__ import annotations

import json

import pytest
import torch
from transformers import Qwen3_5Config, Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration, Qwen3_5TextConfig

from mtp_trainer.contract import Reason, StageError
from mtp_trainer.hidden_states import TransformersVerifier
from mtp_trainer.hidden_states.documents import Span, batches, spans


@pytest.fixture
def text_config(config):
    extra = {
        "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 32,
    }
    return Qwen3_5TextConfig(**{**config, **extra})


@pytest.fixture
def model(text_config):
    torch.manual_seed(0)
    model = Qwen3_5ForCausalLM(text_config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    return model


@pytest.fixture
def folder(model, tmp_path):
    model.save_pretrained(tmp_path)
    return tmp_path


def test_packed_documents_have_the_states_of_documents_run_alone(folder, model, batch):
    states = TransformersVerifier(folder, batch_tokens=30).states(batch.tokens, batch.documents, batch.positions)
    for row, start, end, _ in spans(batch.documents):
        with torch.no_grad():
            alone = model.model(input_ids=batch.tokens[row : row + 1, start:end]).last_hidden_state[0]
        torch.testing.assert_close(states[row, start:end], alone, rtol=1e-4, atol=1e-5)
    assert states[0, 20:].abs().sum() == 0


def test_lm_head_on_the_states_gives_the_models_logits(folder, model, batch):
    verifier = TransformersVerifier(folder)
    states = verifier.states(batch.tokens[1:], batch.documents[1:], batch.positions[1:])
    with torch.no_grad():
        expected = model(input_ids=batch.tokens[1:]).logits
    torch.testing.assert_close(states @ verifier.lm_head.T, expected, rtol=1e-4, atol=1e-4)


def test_tied_embeddings_are_one_tensor(folder):
    verifier = TransformersVerifier(folder)
    assert verifier.lm_head.data_ptr() == verifier.embedding.data_ptr()
    assert torch.equal(verifier.embed(torch.tensor([[3]]))[0, 0], verifier.embedding[3])


def test_a_composite_checkpoint_gives_its_language_models_states(text_config, tmp_path, batch):
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 1, "out_hidden_size": 64}
    torch.manual_seed(0)
    model = Qwen3_5ForConditionalGeneration(
        Qwen3_5Config(text_config=text_config.to_dict(), vision_config=vision)
    ).eval()
    model.save_pretrained(tmp_path)
    states = TransformersVerifier(tmp_path).states(batch.tokens[1:], batch.documents[1:], batch.positions[1:])
    with torch.no_grad():
        expected = model.model.language_model(input_ids=batch.tokens[1:]).last_hidden_state
    torch.testing.assert_close(states, expected, rtol=1e-4, atol=1e-5)


def test_states_come_in_the_dtype_that_was_asked_for(folder, batch):
    states = TransformersVerifier(folder, dtype=torch.bfloat16).states(batch.tokens, batch.documents, batch.positions)
    assert states.dtype == torch.bfloat16


def test_states_that_are_not_finite_name_the_document(model, tmp_path, batch):
    with torch.no_grad():
        model.model.embed_tokens.weight[int(batch.tokens[0, 14])] = float("nan")
    model.save_pretrained(tmp_path)
    with pytest.raises(StageError, match=r"document \d") as caught:
        TransformersVerifier(tmp_path).states(batch.tokens, batch.documents, batch.positions)
    assert caught.value.reason is Reason.HIDDEN_STATES_NOT_FINITE


def test_a_folder_without_a_model_is_refused(tmp_path, config):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(StageError, match="cannot load it") as caught:
        TransformersVerifier(tmp_path)
    assert caught.value.reason is Reason.CHECKPOINT_CORRUPT


def test_documents_are_found_in_their_rows(batch):
    assert spans(batch.documents) == [Span(0, 0, 9, 0), Span(0, 9, 12, 1), Span(0, 12, 20, 2), Span(1, 0, 24, 3)]


def test_groups_hold_documents_of_like_length_within_the_budget(batch):
    groups = batches(spans(batch.documents), batch_tokens=18)
    assert [[span.length for span in group] for group in groups] == [[24], [9, 8], [3]]
