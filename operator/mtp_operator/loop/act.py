"""Carry out a plan, and write what came of it. No decisions here but one: whose object it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime

from mtp_operator.api.conditions import FineTuneReason
from mtp_operator.kube.verbs import KINDS, AlreadyExists, Conflict, KubeError, Object, Refused, Verbs, kind_of
from mtp_operator.reconcile import read
from mtp_operator.reconcile.actions import Action, Apply, Create, Delete
from mtp_operator.reconcile.events import notes
from mtp_operator.reconcile.observed import Problem
from mtp_operator.render.event import event
from mtp_operator.render.owner import Owner

Fetch = Callable[[str], Awaitable[str]]
"""The body of a URL; raises whatever its client raises."""

SOON_SECONDS = 1.0
"""After a conflict: somebody else wrote, so what was seen is old."""


async def act(verbs: Verbs, owner: Owner, actions: Iterable[Action]) -> Problem | None:
    """Do the actions in order, up to the first that isn't possible.

    Raises:
        KubeError: the API server is not available, or the objects changed meanwhile; try again later.
    """
    for action in actions:
        problem = await _do(verbs, owner, action)
        if problem is not None:
            return problem
    return None


async def _do(verbs: Verbs, owner: Owner, action: Action) -> Problem | None:
    if isinstance(action, Delete):
        await verbs.delete(KINDS[action.api_version, action.kind], owner.namespace, action.name, action.uid)
        return None
    try:
        if isinstance(action, Create):
            await verbs.create(action.obj)
        else:
            problem = await _conflict(verbs, owner, action)
            if problem is not None:
                return problem
            await verbs.apply(action.obj)
    except AlreadyExists:
        return await existing_problem(verbs, owner, action.obj)
    except Refused as error:
        name = action.obj["metadata"]["name"]
        return Problem(FineTuneReason.CHILD_CREATE_FAILED, f"{action.obj['kind']} {name}: {error.message}")
    return None


async def _conflict(verbs: Verbs, owner: Owner, action: Apply) -> Problem | None:
    """Apply would take over what exists, so ask before. Parts of an object (no owner reference) are known as ours."""
    if not read.objects(action.obj, "metadata", "ownerReferences"):
        return None
    return await existing_problem(verbs, owner, action.obj)


async def existing_problem(verbs: Verbs, owner: Owner, obj: Object) -> Problem | None:
    """What is wrong with the object that has this one's name; nothing, when it is ours or gone."""
    kind, name = kind_of(obj), obj["metadata"]["name"]
    there = await verbs.get(kind, owner.namespace, name)
    if there is None or is_owned(there, owner.uid):
        return None
    same_name = any(
        read.text(reference, "kind") == owner.kind and read.text(reference, "name") == owner.name
        for reference in read.objects(there, "metadata", "ownerReferences")
    )
    if same_name:
        message = f"{kind.kind} {name} of an earlier {owner.kind} {owner.name} is still being deleted"
        return Problem(FineTuneReason.PENDING, message)
    message = f"{kind.kind} {name} exists and isn't of this {owner.kind}; delete it, or choose another name"
    return Problem(FineTuneReason.NAME_CONFLICT, message)


def is_owned(obj: read.Json, uid: str) -> bool:
    """Whether the object of this uid controls ``obj``."""
    return any(
        read.text(reference, "uid") == uid and read.flag(reference, "controller")
        for reference in read.objects(obj, "metadata", "ownerReferences")
    )


async def write_status(verbs: Verbs, owner: Owner, obj: Object, status: Object, now: datetime) -> Object | None:
    """Write the status if it changed, and tell what happened in Events.

    Returns:
        The object as it is now; ``None`` when it changed meanwhile, or is gone: look again.
    """
    old = read.mapping(obj, "status")
    if old == status:
        return obj
    try:
        written = await verbs.patch_status(obj, status)
    except Conflict:
        return None
    for note in notes(old, status):
        try:
            await verbs.create(event(owner, note.kind, note.reason, note.message, now))
        except KubeError:
            continue  # an Event is a courtesy; what it says is in the status too
    return written


def has_conditions(obj: Object) -> bool:
    """Whether a status was written before."""
    return bool(read.objects(obj, "status", "conditions"))
