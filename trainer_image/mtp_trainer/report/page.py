"""The report as one HTML page."""

from __future__ import annotations

from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from mtp_trainer import __version__
from mtp_trainer.measurements import PARITY_SHARE, Measurements
from mtp_trainer.report import pictures, tables
from mtp_trainer.report.figures import Figures
from mtp_trainer.report.numbers import change, change_range, count, length, length_range, ratio, share
from mtp_trainer.report.theme import page_css


def render_page(figures: Figures) -> str:
    """The whole page: style and pictures inside, nothing loaded, nothing run."""
    # Everything that isn't made here is escaped, whatever it says.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"length": length, "count": count, "share": share, "ratio": ratio, "change": change}
    environment.filters |= {"length_range": length_range, "change_range": change_range}
    source = (resources.files("mtp_trainer.report") / "style" / "page.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(source).render(**_content(figures))


def _content(figures: Figures) -> dict[str, Any]:
    measured = figures.measurements
    return {
        "css": Markup(page_css()),  # noqa: S704 - ours
        "version": __version__,
        "measured": measured,
        "domain": measured.domain,
        "facts": _facts(figures),
        "acceptance": _own(pictures.acceptance_picture(measured)),
        "acceptance_table": tables.acceptance_table(
            measured.domain, measured.shipped_predicted, measured.tuned_predicted
        ),
        "predicted": bool(measured.shipped_predicted or measured.tuned_predicted),
        "lengths": _own(pictures.length_picture("lengths", measured.domain, measured.num_speculative_tokens)),
        "lengths_table": tables.length_table(measured.domain),
        "throughput": _own(pictures.throughput_picture(measured.domain)),
        "rounds_table": tables.rounds_table(measured.domain),
        "general": _general(measured),
        "training": _training(figures),
        "prepared": figures.prepared,
        "data_tables": () if figures.prepared is None else _data(figures),
        "stitched": None if measured.stitched is None else measured.stitched == measured.domain.tuned.counts,
        "stitched_table": tables.stitched_table(measured),
        "parity": measured.parity.agrees,
        "parity_share": PARITY_SHARE,
        "warnings": _warnings(figures),
        "configuration": tables.configuration_table(figures.configuration) if figures.configuration else None,
    }


def _own(picture: str | None) -> Markup | None:
    """A chart is escaped where it is made."""
    return None if picture is None else Markup(picture)  # noqa: S704


def _facts(figures: Figures) -> list[tuple[str, str]]:
    """What was compared, in a line."""
    measured = figures.measurements
    verifier = figures.configuration.get("verifier")
    uri = verifier.get("uri") if isinstance(verifier, dict) else None
    facts = [("Verifier", str(uri))] if uri else []
    return [
        *facts,
        ("Engine", measured.engine),
        ("Speculative tokens", str(measured.num_speculative_tokens)),
        ("Draft sampling", measured.draft_sampling.lower()),
        ("Temperature", f"{measured.temperature:g}"),
        ("Answer tokens", f"at most {count(measured.max_tokens)}"),
        ("Prompts", count(measured.domain.prompts)),
    ]


def _general(measured: Measurements) -> dict[str, Any] | None:
    if measured.general is None:
        return None
    return {
        "measured": measured.general,
        "acceptance": _own(pictures.general_picture(measured.general)),
        "lengths": _own(pictures.length_picture("general-lengths", measured.general, measured.num_speculative_tokens)),
        "tables": (tables.acceptance_table(measured.general), tables.length_table(measured.general)),
    }


def _training(figures: Figures) -> dict[str, Any] | None:
    """Curves and recipe; ``None`` where neither is known."""
    curves, trained = figures.curves, figures.trained
    if curves is None and trained is None:
        return None
    prediction = loss = None
    if curves is not None:
        prediction = pictures.prediction_picture(curves, trained.best_step if trained else None)
        loss = pictures.loss_picture(curves)
    return {
        "prediction": _own(prediction),
        "prediction_table": tables.validation_table(curves.validations) if curves and curves.validations else None,
        "loss": _own(loss),
        "loss_table": (
            tables.loss_table(curves.steps, pictures.smoothed_loss(curves)) if curves and curves.steps else None
        ),
        "window": pictures.loss_window(curves) if curves else 1,
        "recipe": None if trained is None else tables.training_table(trained),
    }


def _data(figures: Figures) -> tuple[tables.Table, ...]:
    assert figures.prepared is not None  # noqa: S101 - narrows the type
    return tables.data_table(figures.prepared), tables.verifier_table(figures.prepared)


def _warnings(figures: Figures) -> list[tuple[str, str]]:
    """Pairs of a stage and what it warned of."""
    found = [("evaluate", warning) for warning in figures.measurements.warnings]
    if figures.trained is not None:
        found += [("train", warning) for warning in figures.trained.warnings]
    if figures.prepared is not None:
        found += [("prepare", warning) for warning in figures.prepared.warnings]
    return found + [("report", warning) for warning in figures.unreadable]
