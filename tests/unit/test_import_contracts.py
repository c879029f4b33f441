"""The import contracts name every module, so that a new one isn't forgotten."""

from __future__ import annotations

import pkgutil
import tomllib
from pathlib import Path

import mtp_trainer


def test_the_operator_may_import_nothing_of_the_trainer_but_its_contract() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    contracts = {contract["name"]: contract for contract in project["tool"]["importlinter"]["contracts"]}
    forbidden = contracts["The operator knows of the trainer only its contract"]["forbidden_modules"]
    modules = {f"mtp_trainer.{module.name}" for module in pkgutil.iter_modules(mtp_trainer.__path__)}
    assert set(forbidden) == modules - {"mtp_trainer.contract"}
