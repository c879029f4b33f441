"""The page: whole, self-contained, escaped, and with every figure that was measured."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from mtp_trainer.contract import AcceptanceCounts, GateVerdict, Reason, Stage, StageError, Workspace
from mtp_trainer.measurements import Measurements, ParityMeasurement, SetMeasurement
from mtp_trainer.report import write_report
from mtp_trainer.report.numbers import (
    change,
    change_range,
    count,
    length,
    length_range,
    points,
    ratio,
    share,
    share_range,
)

Finished = Callable[..., Workspace]

CONFIGURATION = {
    "workspace": "/workspace",
    "verifier": {"uri": "pvc://models/qwen", "path": None},
    "gate": {"minDrafts": 2000, "general": {"maxDrop": 0.05}},
    "trustRemoteCode": False,
}
SECTIONS = ["acceptance", "length", "general", "training", "data", "checks", "configuration"]


def page(workspace: Workspace, configuration: dict[str, Any] | None = None) -> ET.Element:
    """The written page, parsed as strictly as can be."""
    path = write_report(workspace, CONFIGURATION if configuration is None else configuration)
    assert path == workspace.report
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>\n")
    return ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def text_of(element: ET.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def cells(root: ET.Element) -> set[str]:
    """Content of all cells of all tables."""
    return {text_of(cell) for row in root.iter("tr") for cell in row}


def sections(root: ET.Element) -> list[str]:
    return [section.get("id", "") for section in root.iter("section")]


def section(root: ET.Element, name: str) -> ET.Element:
    (found,) = (s for s in root.iter("section") if s.get("id") == name)
    return found


def set_figures(measured: SetMeasurement) -> Iterator[str]:
    """Every figure of one set, as it should be written in a table."""
    for head in (measured.shipped, measured.tuned):
        yield length(head.mean_acceptance_length.value)
        yield length_range(head.mean_acceptance_length)
        for rate, accepted in zip(head.rates, head.counts.accepted, strict=True):
            yield from (share(rate.value), share_range(rate), count(accepted))
        yield from (f"{speed:,.1f}" for speed in head.tokens_per_second)
    for before, after in zip(measured.shipped.rates, measured.tuned.rates, strict=True):
        yield points(after.value - before.value)
    yield change(measured.improvement.value)
    yield change_range(measured.improvement)
    if measured.tokens_per_second_ratio is not None:
        yield ratio(measured.tokens_per_second_ratio)


def test_sections_come_in_the_order_of_their_weight(finished: Finished) -> None:
    assert sections(page(finished())) == SECTIONS


def test_the_headline_says_what_changed_by_how_much_and_that_the_gate_passed(finished: Finished) -> None:
    (header,) = page(finished()).iter("header")
    said = text_of(header)
    for part in ("2.557", "3.133", "+0.576", "+0.545 to +0.605", "1.204×", "Gate passed", "pvc://models/qwen", "128"):
        assert part in said
    assert "failed" not in said


def test_each_failure_of_the_gate_is_a_sentence_of_the_headline(finished: Finished, measured: Measurements) -> None:
    gate = GateVerdict(passed=False, failures=("first <reason>", "second reason"), reason=Reason.GATE_FAILED)
    (header,) = page(finished(measured.model_copy(update={"gate": gate}))).iter("header")
    assert [text_of(item) for item in header.iter("li")] == ["first <reason>", "second reason"]
    assert "Gate failed: GateFailed" in text_of(header)
    assert "passed" not in text_of(header)


def test_every_measured_figure_stands_in_a_table(finished: Finished, measured: Measurements) -> None:
    root = page(finished())
    assert measured.general is not None
    for name, figures in (("domain", measured.domain), ("general", measured.general)):
        part = cells(section(root, "general") if name == "general" else root)
        assert set(set_figures(figures)) - part == set()
        assert f"{count(figures.shipped.counts.drafts)} drafts of the shipped head" in text_of(root)
        assert f"{count(figures.tuned.counts.drafts)} of the tuned one" in text_of(root)
    predicted = {share(rate) for rate in (*measured.shipped_predicted, *measured.tuned_predicted)}
    assert predicted <= cells(section(root, "acceptance"))


def test_training_is_told_by_curves_and_tables(finished: Finished) -> None:
    training = section(page(finished()), "training")
    assert len(list(training.iter("svg"))) == 2
    found = cells(training)
    # The validations' figures, the first and last steps' losses, and the recipe.
    assert {"80.0%", "50.0%", "30.0%", "2.600", "86.0%", "62.0%", "54.0%", "3.020"} <= found
    assert {"2.39", "2", "1.99", "2.49", "2.99", "0.0001"} <= found
    assert "LK on the serving recursion, 3 steps deep" in found
    assert "40 (the tuned head)" in found
    assert {"sha256:cdcd", "sha256:efef"} <= found


def test_data_counts_say_what_was_left_out_and_why(finished: Finished) -> None:
    rows = {tuple(text_of(cell) for cell in row) for row in section(page(finished()), "data").iter("tr")}
    assert {
        ("samples read", "6,000", ""),
        ("left out: duplicate", "171", "2.9%"),
        ("left out: held out", "62", "1.0%"),
        ("left out: regeneration failed", "55", "0.9%"),
        ("samples kept", "5,712", "95.2%"),
        ("tokens under the loss mask", "1,402,118", "73.0%"),
        ("verifier", "sha256:3f3f"),
        ("MTP head", "15 tensors, 1,204,736 parameters"),
    } <= rows


def test_checks_tell_parity_stitching_and_all_warnings(finished: Finished, measured: Measurements) -> None:
    checks = section(page(finished(measured.model_copy(update={"warnings": ("served below predicted",)}))), "checks")
    said = text_of(checks)
    assert "127 of 127 greedy answers are identical" in said
    assert "Equal in every count" in said
    for stage, warning in (
        ("evaluate", "served below predicted"),
        ("train", "few unique tokens"),
        ("prepare", "one answer in nine was cut"),
    ):
        assert f"Warning of the {stage} stage {warning}" in said


@pytest.mark.parametrize(("identical", "kind"), [(127, "good"), (125, "good"), (101, "bad")])
def test_parity_is_judged_as_the_gate_judges_it(
    finished: Finished, measured: Measurements, identical: int, kind: str
) -> None:
    parity = ParityMeasurement(prompts=127, identical=identical, first_difference="prompt 3, token 17 of 256")
    checks = section(page(finished(measured.model_copy(update={"parity": parity}))), "checks")
    first = next(checks.iter("li"))
    assert first.get("class") == kind
    assert f"{identical} of 127" in text_of(first)
    assert "prompt 3, token 17 of 256" in text_of(first)


def test_a_stitched_checkpoint_that_differs_is_shown_count_by_count(finished: Finished, measured: Measurements) -> None:
    other = AcceptanceCounts(drafts=5300, accepted=(4400, 3700, 3100))
    checks = section(page(finished(measured.model_copy(update={"stitched": other}))), "checks")
    assert "Their counts differ" in text_of(checks)
    assert {"5,302", "4,428", "3,746", "3,137", "5,300", "4,400", "3,700", "3,100"} <= cells(checks)


def test_the_configuration_is_folded_away_under_its_dotted_names(finished: Finished) -> None:
    configuration = section(page(finished()), "configuration")
    (details,) = configuration.iter("details")
    rows = [tuple(text_of(cell) for cell in row) for row in details.iter("tr")]
    assert rows == [
        ("workspace", "/workspace"),
        ("verifier.uri", "pvc://models/qwen"),
        ("gate.minDrafts", "2000"),
        ("gate.general.maxDrop", "0.05"),
        ("trustRemoteCode", "false"),
    ]


def test_the_page_loads_and_runs_nothing(finished: Finished) -> None:
    root = page(finished())
    text = ET.tostring(root, encoding="unicode")
    assert not {"script", "link", "iframe", "img", "object", "embed", "base", "form"} & {e.tag for e in root.iter()}
    assert re.search(r"https?://|url\(|@import|@font-face|javascript:", text) is None
    for element in root.iter():
        assert not {name for name in element.attrib if name in ("src", "href", "srcset") or name.startswith("on")}


def test_both_colour_schemes_and_print_are_styled(finished: Finished) -> None:
    (style,) = page(finished()).iter("style")
    assert style.text is not None
    assert "@media screen and (prefers-color-scheme: dark)" in style.text
    assert "@media print" in style.text
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", style.text))
    defined = set(re.findall(r"--([a-z0-9-]+):", style.text))
    assert used <= defined


def test_every_picture_has_a_title_a_description_and_an_id_of_its_own(finished: Finished) -> None:
    root = page(finished())
    identities = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(identities) == len(set(identities))
    by_id = {e.get("id"): e for e in root.iter()}
    pictures = [svg for svg in root.iter("svg") if svg.get("role") == "img"]
    assert len(pictures) == 7
    for picture in pictures:
        for identity in picture.get("aria-labelledby", "").split():
            assert by_id[identity].text
    assert all(svg.get("aria-hidden") == "true" for svg in root.iter("svg") if svg not in pictures)


EVIL = "</style><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;"


def test_nothing_that_is_shown_can_become_markup(finished: Finished, measured: Measurements) -> None:
    gate = GateVerdict(passed=False, failures=(EVIL,), reason=Reason.GATE_FAILED)
    parity = ParityMeasurement(prompts=127, identical=1, first_difference=EVIL)
    changed = {"gate": gate, "warnings": (EVIL,), "engine": EVIL, "draft_sampling": EVIL, "parity": parity}
    workspace = finished(measured.model_copy(update=changed))
    root = page(workspace, {EVIL: EVIL, "verifier": {"uri": EVIL}, "list": [EVIL, {EVIL: 1}]})
    assert not {"script", "img"} & {e.tag for e in root.iter()}
    assert "<script" not in workspace.report.read_text()
    # It is still there, as text: failure, warning, engine, first difference, verifier (twice), name and value.
    assert text_of(root).count("<script>alert(1)</script>") >= 8


@pytest.mark.parametrize(
    ("left_out", "gone"),
    [
        ({"without_history": True, "trained": None}, {"training"}),
        ({"prepared": None}, {"data"}),
        ({"without_history": True, "trained": None, "prepared": None}, {"training", "data"}),
    ],
    ids=["training", "prepare", "both"],
)
def test_a_part_that_is_missing_leaves_out_its_section(
    finished: Finished, left_out: dict[str, Any], gone: set[str]
) -> None:
    assert sections(page(finished(**left_out))) == [name for name in SECTIONS if name not in gone]


def test_without_general_set_configuration_and_stitched_checkpoint_nothing_speaks_of_them(
    finished: Finished, measured: Measurements
) -> None:
    bare = measured.model_copy(
        update={"general": None, "stitched": None, "shipped_predicted": (), "tuned_predicted": ()}
    )
    root = page(finished(bare), {})
    assert sections(root) == [name for name in SECTIONS if name not in ("general", "configuration")]
    assert "titched checkpoint against" not in text_of(root)
    assert "predicted" not in text_of(section(root, "acceptance"))


def test_throughput_that_was_not_measured_is_not_shown(finished: Finished, measured: Measurements) -> None:
    assert measured.general is not None
    root = page(finished(measured.model_copy(update={"domain": measured.general})))
    assert "hroughput" not in text_of(root)
    assert len(list(section(root, "length").iter("svg"))) == 1


def test_a_history_without_drafts_or_with_one_line_leaves_out_its_curve(finished: Finished) -> None:
    nothing = {"step": 0, "validation": {"drafts": 0, "accepted": [0, 0, 0], "meanAcceptanceLength": 1.0}}
    training = section(page(finished(history=[nothing, {"step": 1, "loss": 2.5, "stepLosses": [2.5]}])), "training")
    assert list(training.iter("svg")) == []
    assert {"1.000", "2.5"} <= cells(training)


def test_an_engine_that_drafted_nothing_is_told_in_words(finished: Finished, measured: Measurements) -> None:
    none = measured.domain.shipped.model_copy(
        update={"counts": AcceptanceCounts(drafts=0, accepted=(0, 0, 0)), "rates": ()}
    )
    domain = measured.domain.model_copy(update={"shipped": none, "tuned": none})
    root = page(finished(measured.model_copy(update={"domain": domain})))
    assert "The engine drafted nothing." in text_of(section(root, "acceptance"))


def test_a_result_that_cannot_be_read_is_named_and_left_out(finished: Finished) -> None:
    workspace = finished()
    workspace.result(Stage.PREPARE).write_text("{")
    root = page(workspace)
    assert "data" not in sections(root)
    assert f"Left out of this report {workspace.result(Stage.PREPARE)}: not a stage's result" in text_of(root)


def test_missing_measurements_name_their_file_and_stage(finished: Finished) -> None:
    workspace = finished()
    workspace.measurements.unlink()
    with pytest.raises(
        StageError, match=f"{workspace.measurements}: not there; run the evaluate stage first"
    ) as caught:
        write_report(workspace, {})
    assert caught.value.reason is Reason.CONFIG_INVALID
    assert not workspace.report.exists()


def test_damaged_measurements_name_their_file(finished: Finished) -> None:
    workspace = finished()
    workspace.measurements.write_text(workspace.measurements.read_text()[:100])
    with pytest.raises(StageError, match=str(workspace.measurements)) as caught:
        write_report(workspace, {})
    assert "evaluate stage" in caught.value.message
