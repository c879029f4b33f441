"""Which object an event is about."""

from __future__ import annotations

import pytest

from mtp_operator.controller.handlers import key_of_child, selector
from mtp_operator.controller.queue import Key
from mtp_operator.kube.verbs import FINE_TUNE, JOB, POD, SERVING
from mtp_operator.render import labels


def test_a_child_names_its_run_or_its_serving() -> None:
    assert key_of_child("team", {labels.RUN: "gsm", "app": "x"}) == Key(FINE_TUNE, "team", "gsm")
    assert key_of_child("team", {labels.SERVING: "chat"}) == Key(SERVING, "team", "chat")


@pytest.mark.parametrize("child", [{}, {"app": "theirs"}, {labels.RUN: ""}])
def test_what_names_nobody_is_nobodys_child(child: dict[str, str]) -> None:
    assert key_of_child("team", child) is None


def test_core_kinds_have_an_empty_group() -> None:
    assert selector(POD) == ("", "v1", "pods")
    assert selector(JOB) == ("batch", "v1", "jobs")
    assert selector(FINE_TUNE) == ("specdecode.dev", "v1alpha1", "mtpfinetunes")


def test_a_key_reads_as_people_name_the_object() -> None:
    assert str(Key(SERVING, "team", "chat")) == "SpecDecodeServing team/chat"
