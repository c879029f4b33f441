"""``mtp render``: what the operator would create for a manifest, without a cluster and without running anything."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from mtp_operator.api.fine_tune_spec import MTPFineTuneSpec
from mtp_operator.api.validation import InvalidManifest, parse, with_defaults
from mtp_operator.cli.manifests import UnreadableManifest, read_manifests
from mtp_operator.kube.verbs import Object, Refused
from mtp_operator.local.store import refuse_unknown_kinds
from mtp_operator.reconcile.actions import Apply, Create
from mtp_operator.reconcile.pods import Cause
from mtp_operator.reconcile.serving_model import resolve
from mtp_operator.reconcile.serving_plan import plan
from mtp_operator.reconcile.serving_run import ServingObserved, serving_of
from mtp_operator.render.claim import workspace_claim
from mtp_operator.render.config_map import stage_config_map
from mtp_operator.render.defaults import Defaults
from mtp_operator.render.job import stage_job
from mtp_operator.render.owner import Owner
from mtp_trainer.contract import Stage


class NotRenderable(ValueError):
    """A manifest whose objects depend on something that isn't here."""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``render``."""
    render = commands.add_parser("render", help="print the objects that a manifest leads to", description=__doc__)
    render.add_argument("-f", "--file", action="append", type=Path, required=True, dest="files", metavar="FILE")
    render.set_defaults(command=_render)


def _render(options: argparse.Namespace) -> int:
    try:
        manifests = read_manifests(options.files)
        refuse_unknown_kinds(manifests)
        objects = [child for manifest in manifests for child in children(manifest)]
    except Refused as error:
        print(error.message, file=sys.stderr)
        return 2
    except (UnreadableManifest, InvalidManifest, NotRenderable) as error:
        print(error, file=sys.stderr)
        return 2
    print(yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=120), end="")
    return 0


class _Dumper(yaml.SafeDumper):
    """Texts of several lines, such as a stage's configuration, as blocks that people can read."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def children(manifest: Object) -> Iterator[Object]:
    """What the operator creates for a manifest, in order.

    Raises:
        InvalidManifest: an API server would refuse it.
        NotRenderable: it refers to a run, or asks for something that this version can't do.
    """
    obj = with_defaults(manifest)
    parsed = parse(obj)
    spec, metadata = parsed.spec, parsed.metadata
    if isinstance(spec, MTPFineTuneSpec):
        owner = Owner("MTPFineTune", metadata.namespace, metadata.name, metadata.uid, metadata.labels)
        claim = workspace_claim(owner, spec.workspace)
        if claim is not None:
            yield claim
        for stage in Stage:
            yield stage_config_map(owner, spec, stage, Defaults())
            yield stage_job(owner, spec, stage, Defaults())
        return
    serving, observed = serving_of(obj), ServingObserved()
    resolved = resolve(serving, observed.runs)
    if isinstance(resolved, Cause):
        raise NotRenderable(f"SpecDecodeServing {metadata.name}: {resolved.reason}: {resolved.message}")
    for action in plan(serving, observed, Defaults()):
        if isinstance(action, Create | Apply):
            yield action.obj
