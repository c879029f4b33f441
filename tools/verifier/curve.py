"""The picture of both phases' loss."""

from __future__ import annotations

from pathlib import Path

from verifier.training import Curve


def draw(path: Path, trunk: Curve, head: Curve) -> None:
    """Loss over tokens of both phases, the head's after the trunk's, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.5))
    before = trunk.tokens[-1] if trunk.tokens else 0
    axes.plot([count / 1e6 for count in trunk.tokens], trunk.loss, label="trunk: next token")
    axes.plot([(before + count) / 1e6 for count in head.tokens], head.loss, label="head: token after next")
    axes.set(xlabel="million tokens", ylabel="nats per answer token", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
