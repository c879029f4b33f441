"""Make the quickstart's verifier, a small Qwen3.5 with an MTP head, and its data sets, from a seed.

    python tools/make_verifier.py --out examples/quickstart --seed 7

writes ``verifier/`` (checkpoint, ``training.json``, ``training.png``) and ``data/`` (``train``, ``heldout`` and
``general.jsonl``). It needs torch, tokenizers, safetensors, reasoning-gym and matplotlib; no accelerator, no network.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import time
from pathlib import Path

import torch

from verifier import checkpoint, corpus, training
from verifier.accuracy import measure
from verifier.curve import draw
from verifier.layers import Shape
from verifier.model import Verifier
from verifier.tasks import FAMILIES

ROW_TOKENS = 256
PACKAGES = ("torch", "tokenizers", "safetensors", "reasoning-gym")


def arguments() -> argparse.Namespace:
    """The command line; its defaults are what made the checkpoint in the repository."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder that gets verifier/ and data/")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--conversations", type=int, default=70_000, help="for general training")
    parser.add_argument("--vocabulary", type=int, default=1536)
    parser.add_argument("--batch-rows", type=int, default=8, help=f"rows of {ROW_TOKENS} tokens in a step")
    parser.add_argument("--trunk-steps", type=int, default=2400)
    parser.add_argument("--trunk-rate", type=float, default=2.5e-3, help="peak learning rate")
    parser.add_argument("--head-steps", type=int, default=500)
    parser.add_argument("--head-rate", type=float, default=2e-3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="compile the trunk's step: 1.4 times as fast after 90 s")
    parser.add_argument("--trunk-stop", type=int, help="end the trunk's schedule early, after so many steps")
    parser.add_argument("--trunk-from", type=Path, help="start from the trunk of this safetensors file")
    parser.add_argument("--leg", type=int, default=0, help="shuffles the rows anew when training goes on from a trunk")
    return parser.parse_args()


def main() -> None:
    """Data, tokenizer, trunk, head, accuracy: in this order, each from the same seed."""
    options = arguments()
    started = time.monotonic()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    folder, data = options.out / "verifier", options.out / "data"
    folder.mkdir(parents=True, exist_ok=True)
    data.mkdir(parents=True, exist_ok=True)

    parts = corpus.split(options.conversations, options.seed)
    for name in ("train", "heldout", "general"):
        corpus.write_jsonl(data / f"{name}.jsonl", getattr(parts, name))
    tokenizer = corpus.train_tokenizer(parts.training[:20_000], options.vocabulary)
    rows = corpus.pack(parts.training, tokenizer, ROW_TOKENS)
    used = float((rows.documents >= 0).float().mean())
    print(f"data: {len(parts.training)} conversations, {rows.tokens.numel()} tokens, {used:.1%} used", flush=True)

    verifier = Verifier(Shape(vocab_size=tokenizer.get_vocab_size()))
    parameters = sum(parameter.numel() for parameter in verifier.parameters())
    print(f"{parameters} parameters, {time.monotonic() - started:.0f} s", flush=True)
    generator = torch.Generator().manual_seed(options.seed + 1000 * options.leg)
    source = training.batches(rows, options.batch_rows, generator)

    def save(step: int) -> None:
        checkpoint.write(folder, verifier, tokenizer)
        print(f"saved at step {step}", flush=True)

    if options.trunk_from:
        checkpoint.read_trunk(options.trunk_from, verifier)
    step_loss = torch.compile(training.trunk_loss, dynamic=False) if options.compile else training.trunk_loss
    trunk = training.train(
        *("trunk", verifier, verifier.model, step_loss, source),
        steps=options.trunk_steps,
        stop=options.trunk_stop,
        learning_rate=options.trunk_rate,
        on_progress=save,
    )
    save(options.trunk_steps)
    # From here on the trunk is what will be served: bfloat16 weights.
    with torch.no_grad():
        for parameter in verifier.model.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))
    head = training.train(
        *("head", verifier, verifier.mtp, training.head_loss, source),
        steps=options.head_steps,
        learning_rate=options.head_rate,
        on_progress=save,
    )
    save(options.head_steps)
    accuracy = measure(verifier, tokenizer, parts)
    report = {
        "seed": options.seed,
        "parameters": parameters,
        "shape": vars(verifier.shape),
        "families": {name: family.share for name, family in FAMILIES.items()},
        "options": {key: value for key, value in vars(options).items() if key not in ("out", "trunk_from")},
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
        "seconds": round(time.monotonic() - started),
        "accuracy": accuracy,
        "trunk": vars(trunk),
        "head": vars(head),
    }
    checkpoint.write_json(folder / "training.json", report)
    draw(folder / "training.png", trunk, head)
    print(f"done in {report['seconds']} s: {accuracy}", flush=True)


if __name__ == "__main__":
    main()
