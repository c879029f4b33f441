"""Tables by the CRD's printer columns."""

from datetime import UTC, datetime, timedelta

import pytest

from mtp_operator.local.table import age, table, value_at

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
RUN = {
    "metadata": {"name": "run", "creationTimestamp": "2026-11-30T11:55:00Z"},
    "spec": {"verifier": {"uri": "pvc://m/v"}},
    "status": {
        "stage": "Train",
        "progress": {"percent": 42},
        "conditions": [
            {"type": "Succeeded", "status": "Unknown", "reason": "Other"},
            {"type": "Ready", "status": "False", "reason": "Running"},
        ],
    },
}


def test_a_column_finds_a_condition_by_its_type() -> None:
    assert value_at(RUN, '.status.conditions[?(@.type=="Ready")].reason') == "Running"


def test_a_column_of_something_that_is_not_there_is_empty() -> None:
    assert value_at(RUN, ".status.evaluation.tuned.summary") is None


def test_columns_are_aligned_under_the_crds_names() -> None:
    header, row = table("MTPFineTune", [RUN], NOW).splitlines()
    assert header == "NAME   VERIFIER    STAGE   PROGRESS   ACCEPTANCE   IMPROVEMENT   READY   REASON    AGE"
    assert row.split() == ["run", "pvc://m/v", "Train", "42", "False", "Running", "5m"]
    assert row.index("Running") == header.index("REASON")


def test_wide_tables_have_more_columns() -> None:
    assert "SHIPPED" in table("MTPFineTune", [RUN], NOW, wide=True)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (5, "5s"),
        (119, "119s"),
        (125, "2m5s"),
        (900, "15m"),
        (3 * 3600 + 600, "3h10m"),
        (20 * 3600, "20h"),
        (86400 * 3, "3d"),
    ],
)
def test_ages_are_written_as_kubectl_does(seconds: int, text: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == text
