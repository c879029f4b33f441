"""Only what the model wrote is under the mask, by the model's own chat template."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtp_trainer.contract import Reason, StageError
from mtp_trainer.data import Document, Dropped, Renderer, Sample

MARKED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{%- generation -%}"
    "{{ m.content }}<|im_end|>{%- endgeneration -%}{% else %}{{ m.content }}<|im_end|>{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
UNMARKED = MARKED.replace("{%- generation -%}", "").replace("{%- endgeneration -%}", "")
# Reasoning models: the prompt ends with an opened thought; earlier answers lose theirs.
REASONING = (
    "{% set last = messages | map(attribute='role') | list %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and loop.last %}<think>\n{{ m.reasoning }}\n</think>\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
STRICT = "{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}" + UNMARKED


def conversation(*turns: str) -> Sample:
    """Turns of user and assistant, in turn."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": turn, "reasoning": f"r{i}"} for i, turn in enumerate(turns)]
    return Sample("a.jsonl:1", tuple(messages))


@pytest.fixture
def renderer(tmp_path: Path) -> Renderer:
    return make_renderer(tmp_path, MARKED)


def make_renderer(folder: Path, template: str | None) -> Renderer:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<|im_start|>", "<|im_end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate([*special, *alphabet])}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>")
    if template is not None:
        fast.chat_template = template
    fast.save_pretrained(folder)
    return Renderer.load(folder)


def made(renderer: Renderer, sample: Sample) -> Document:
    document = renderer.document(sample)
    assert isinstance(document, Document), document
    return document


def under_mask(renderer: Renderer, document: Document) -> str:
    return str(renderer.tokenizer.decode([t for t, m in zip(document.tokens, document.mask, strict=True) if m]))


@pytest.mark.parametrize("template", [MARKED, UNMARKED], ids=["marked", "unmarked"])
def test_answers_and_their_ends_of_turn_are_under_the_mask(tmp_path: Path, template: str) -> None:
    renderer = make_renderer(tmp_path, template)
    document = made(renderer, conversation("1+1?", "It is 2é.", "2+2?", "4"))
    assert under_mask(renderer, document) == "It is 2é.<|im_end|>4<|im_end|>"
    assert renderer.last_turn_only == 0


@pytest.mark.parametrize("template", [MARKED, UNMARKED], ids=["marked", "unmarked"])
def test_a_document_ends_with_its_last_answer(tmp_path: Path, template: str) -> None:
    renderer = make_renderer(tmp_path, template)
    document = made(renderer, conversation("1+1?", "2", "thanks"))
    assert (
        renderer.tokenizer.decode(document.tokens)
        == "<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n2<|im_end|>"
    )


def test_a_template_that_drops_earlier_thoughts_leaves_the_last_answer(tmp_path: Path) -> None:
    renderer = make_renderer(tmp_path, REASONING)
    one = made(renderer, conversation("1+1?", "2"))
    assert under_mask(renderer, one) == "r1\n</think>\n2<|im_end|>"
    assert renderer.last_turn_only == 0
    two = made(renderer, conversation("1+1?", "2", "2+2?", "4"))
    assert under_mask(renderer, two) == "r3\n</think>\n4<|im_end|>"
    assert renderer.last_turn_only == 1


def test_a_prompt_ends_where_the_model_begins(renderer: Renderer) -> None:
    sample = conversation("1+1?", "2")
    prompt = renderer.prompt_tokens(sample.prompt)
    document = made(renderer, sample)
    assert list(document.tokens[: len(prompt)]) == prompt
    assert document.mask.index(True) == len(prompt)


def test_all_of_a_plain_text_counts_and_it_ends(renderer: Renderer) -> None:
    document = made(renderer, Sample("a:1", text="once"))
    assert under_mask(renderer, document) == "once<|im_end|>"
    assert all(document.mask)


def test_text_that_looks_like_a_turn_within_a_question_is_not_trained(tmp_path: Path) -> None:
    renderer = make_renderer(tmp_path, UNMARKED)
    document = made(renderer, conversation("say <|im_start|>assistant\n2<|im_end|>", "no"))
    assert under_mask(renderer, document) == "no<|im_end|>"


def test_a_conversation_without_an_answer_is_dropped_with_its_place(renderer: Renderer) -> None:
    assert renderer.document(conversation("1+1?")) == Dropped(
        "noAssistant", "a.jsonl:1: no message has the role assistant"
    )


def test_a_conversation_that_the_template_refuses_is_dropped_with_the_templates_words(tmp_path: Path) -> None:
    renderer = make_renderer(tmp_path, STRICT)
    dropped = renderer.document(Sample("a.jsonl:1", ({"role": "assistant", "content": "2"},)))
    assert isinstance(dropped, Dropped)
    assert dropped.reason == "templateRefused"
    assert "a.jsonl:1" in dropped.detail
    assert "user first" in dropped.detail


def test_a_tokenizer_without_a_template_says_what_to_add(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"add chat_template\.jinja") as caught:
        make_renderer(tmp_path, None).prompt_tokens([{"role": "user", "content": "1"}])
    assert caught.value.reason is Reason.DATASET_INVALID


def test_a_checkpoint_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"add tokenizer\.json") as caught:
        Renderer.load(tmp_path)
    assert str(tmp_path) in caught.value.message
