"""Condition types and reasons of both kinds, each with the line that says when it is set. All of them are API.

Polarity: every condition is good when True, except the three that are *present only when True*: Reconciling and
Stalled, as kstatus wants them, and Suspended. A terminal failure sets Ready=False and Stalled=True, the one thing
that Flux, Helm and Argo CD take for failed.
"""

from __future__ import annotations

from enum import StrEnum


class Described(StrEnum):
    """A word of the API and its ``meaning``."""

    meaning: str

    def __new__(cls, word: str, meaning: str) -> Described:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member


class FineTuneCondition(Described):
    """Condition types of ``MTPFineTune``."""

    READY = "Ready", "Published and the gate passed. What `kubectl wait` and GitOps tools look at."
    SUCCEEDED = "Succeeded", "Unknown while the run goes on; then True or False for good."
    PREPARED = "Prepared", "The verifier was inspected and the data is ready."
    TRAINED = "Trained", "The tuned head is written."
    EVALUATED = "Evaluated", "Both heads were measured."
    GATE_PASSED = "GatePassed", "The tuned head met every rule of the gate."
    PUBLISHED = "Published", "The artefacts are at their place, by digest."
    RECONCILING = "Reconciling", "Only when True: the run has not ended."
    STALLED = "Stalled", "Only when True: the run failed for good; nothing more will happen."
    SUSPENDED = "Suspended", "Only when True: spec.suspend is set."


class ServingCondition(Described):
    """Condition types of ``SpecDecodeServing``."""

    READY = "Ready", "The newest pods serve the model. With onDegraded NotReady, acceptance counts too."
    MODEL_RESOLVED = "ModelResolved", "The model and its head are known, and allowed together."
    AVAILABLE = "Available", "Enough pods of the newest template take requests."
    ACCEPTANCE_MEASURED = "AcceptanceMeasured", "The window holds enough drafts for a measurement."
    ACCEPTANCE_HEALTHY = "AcceptanceHealthy", "Acceptance is at or above degradedBelow; Unknown without a measurement."
    RECONCILING = "Reconciling", "Only when True: pods are being created or replaced."
    STALLED = "Stalled", "Only when True: nothing will change until the spec, or what it refers to, does."


class FineTuneReason(Described):
    """Reasons of ``MTPFineTune``'s conditions. Those of the trainer's stages are the same words there."""

    ACCEPTED = "Accepted", "The operator has seen the object; nothing was created yet."
    RUNNING = "Running", "A pod of the stage runs."
    COMPLETED = "Completed", "The stage, or the whole run, ended well."
    WAITING = "Waiting", "An earlier stage has not ended."
    NOT_REACHED = "NotReached", "The run ended before this stage."
    GATE_PASSED = "GatePassed", "Every rule of the gate holds."
    GATE_WARNED = "GateWarned", "A rule of the gate fails, and onFailure is Warn: published all the same."
    SUSPENDED = "Suspended", "spec.suspend is set; the run goes on from its checkpoint when it is unset."
    QUEUED = "Queued", "The Job is suspended by a queue, such as Kueue, and waits for its quota."
    PENDING = "Pending", "The pod exists and has not started; no cause is known."
    UNSCHEDULABLE = "Unschedulable", "No node fits the pod; the message is the scheduler's."
    IMAGE_PULL_FAILED = "ImagePullFailed", "The image can't be pulled; the message is the kubelet's."
    VOLUME_MISSING = "VolumeMissing", "A claim, or a path in it, doesn't exist."
    SECRET_MISSING = "SecretMissing", "A Secret, or a key in it, doesn't exist."
    HUB_UNAUTHORIZED = "HubUnauthorized", "The hub refused the credentials, or the model is gated."
    HUB_RATE_LIMITED = "HubRateLimited", "The hub asked to slow down; tried again."
    NO_MTP_HEAD = "NoMTPHead", "The verifier has no MTP head to tune."
    UNSUPPORTED_FAMILY = "UnsupportedFamily", "The trainer doesn't know this family of heads."
    INCOMPLETE_MTP_HEAD = "IncompleteMTPHead", "Tensors of the head are missing, extra or of the wrong shape."
    QUANTIZED_HEAD = "QuantizedHead", "The head's tensors are quantised and can't be trained as they are."
    CHECKPOINT_CORRUPT = "CheckpointCorrupt", "A checkpoint's files are truncated or don't match their digests."
    DATASET_EMPTY = "DatasetEmpty", "No sample was left to train or measure on; the message says why."
    DATASET_INVALID = "DatasetInvalid", "A sample can't be read; the message names file and line."
    CONFIG_INVALID = "ConfigInvalid", "The stage refused its configuration; the message names the field."
    OUTPUT_NOT_WRITABLE = "OutputNotWritable", "The workspace or output folder can't be written."
    DISK_FULL = "DiskFull", "No space is left on a volume."
    OUT_OF_MEMORY = "OutOfMemory", "The pod was killed for its memory, or the GPU ran out of it."
    LOSS_NOT_FINITE = "LossNotFinite", "The loss became NaN or infinite."
    HIDDEN_STATES_NOT_FINITE = "HiddenStatesNotFinite", "The verifier's hidden states hold NaN or infinity."
    INTERRUPTED = "Interrupted", "The pod was stopped after a checkpoint; the run goes on from there."
    ENGINE_MISSING = "EngineMissing", "The image has no vLLM, or one that the trainer can't use."
    ENGINE_FAILED = "EngineFailed", "The stage's vLLM didn't start; the message has its last line."
    ENGINE_CRASHED = "EngineCrashed", "The stage's vLLM ended while it was needed."
    ENGINE_NONSENSE = "EngineNonsense", "The endpoint answered something that is not an answer."
    GATE_FAILED = "GateFailed", "A rule of the gate fails; the message names each."
    TOO_FEW_DRAFTS = "TooFewDrafts", "The measurement rests on fewer drafts than gate.minDrafts."
    OUTPUT_MISMATCH = "OutputMismatch", "Greedy output with and without drafting differs."
    PUSH_DENIED = "PushDenied", "The registry refused the push."
    STARTUP_TIMEOUT = "StartupTimeout", "The pod did not start its work in failurePolicy.startupTimeoutSeconds."
    DEADLINE_EXCEEDED = "DeadlineExceeded", "The stage ran longer than activeDeadlineSeconds."
    RETRIES_EXHAUSTED = "RetriesExhausted", "The stage failed more often than failurePolicy.maxRetries."
    CHILD_CREATE_FAILED = "ChildCreateFailed", "The API server refused an object of the run; the message is its own."
    NAME_CONFLICT = "NameConflict", "An object of that name exists and belongs to something else."
    NOT_SUPPORTED = "NotSupported", "This version can't do what a field asks for; the message names it."
    UNEXPECTED = "Unexpected", "The stage failed in a way that it doesn't know; the message and log say more."


class ServingReason(Described):
    """Reasons of ``SpecDecodeServing``'s conditions."""

    ACCEPTED = "Accepted", "The operator has seen the object; nothing was created yet."
    RESOLVED = "Resolved", "The model and its head are known."
    MODEL_PENDING = "ModelPending", "The run that the model or head comes from has not ended."
    MODEL_NOT_FOUND = "ModelNotFound", "The run, claim or path that the model or head comes from doesn't exist."
    GATE_NOT_PASSED = "GateNotPassed", "The run ended without a head that passed its gate."
    PROGRESSING = "Progressing", "Pods are being created or replaced."
    UNSCHEDULABLE = "Unschedulable", "No node fits a pod; the message is the scheduler's."
    IMAGE_PULL_FAILED = "ImagePullFailed", "The image can't be pulled; the message is the kubelet's."
    VOLUME_MISSING = "VolumeMissing", "A claim doesn't exist."
    SECRET_MISSING = "SecretMissing", "A Secret, or a key in it, doesn't exist."
    ENGINE_STARTING = "EngineStarting", "vLLM is loading the model."
    ENGINE_CRASHED = "EngineCrashed", "vLLM ended; the message has its exit code and last line."
    OUT_OF_MEMORY = "OutOfMemory", "The pod was killed for its memory."
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded", "Nothing moved in rollout.progressDeadlineSeconds."
    MINIMUM_REPLICAS_AVAILABLE = "MinimumReplicasAvailable", "Enough pods take requests."
    SCALED_TO_ZERO = "ScaledToZero", "replicas is 0."
    SERVING = "Serving", "The newest pods serve the model."
    MEASURED = "Measured", "The window holds enough drafts."
    HEALTHY = "Healthy", "Acceptance is at or above degradedBelow."
    NO_TRAFFIC = "NoTraffic", "Nothing was drafted in the window."
    TOO_FEW_DRAFTS = "TooFewDrafts", "The window holds fewer drafts than acceptance.minDrafts."
    INCONSISTENT = "Inconsistent", "The counters contradict each other: mean length is not 1 + the sum of the rates."
    POSITIONS_MISSING = "PositionsMissing", "The engine counts fewer positions than numSpeculativeTokens."
    SCRAPE_FAILED = "ScrapeFailed", "The counters of a pod can't be read."
    DRAFTS_REJECTED = "DraftsRejected", "Mean length is about 1: the head was not loaded, or doesn't fit the model."
    BELOW_THRESHOLD = "BelowThreshold", "Acceptance is below degradedBelow."
    CHILD_CREATE_FAILED = "ChildCreateFailed", "The API server refused an object; the message is its own."
    NAME_CONFLICT = "NameConflict", "An object of that name exists and belongs to something else."
    NOT_SUPPORTED = "NotSupported", "This version can't do what a field asks for; the message names it."
