"""Every reason code there is: why something was refused, held, failed or left unknown.

A code is written to rows, receipts, logs, metrics and exit messages; people read the sentence that
stands with it. ``tests/contracts/test_reasons.py`` holds that each has one and that ``docs/`` lists
them all.
"""

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """A reason code, with what it means for people."""

    sentence: str

    def __new__(cls, code: str, sentence: str = "") -> Self:
        """Keep the sentence beside the code."""
        reason = str.__new__(cls, code)
        reason._value_ = code
        reason.sentence = sentence
        return reason

    # What arrives is not what it should be.
    TOO_LARGE = "too_large", "More bytes than such a message may have."
    MALFORMED = "malformed", "Not the JSON, envelope or schema that the format asks for."
    WRONG_PAYLOAD_TYPE = "wrong_payload_type", "A signed document of another kind."
    BAD_SIGNATURE = "bad_signature", "No signature by a key that the policy knows verifies."
    UNPROVEN_METADATA = "unproven_metadata", "The policy's own metadata does not verify."
    WRONG_HUB = "wrong_hub", "Signed for another hub."
    WRONG_EPOCH = "wrong_epoch", "Signed for an earlier life of this hub's database."

    # It is what it should be, and may not be done.
    NO_POLICY = "no_policy", "The hub has no policy: it takes readings and no commands."
    POLICY_EXPIRED = "policy_expired", "The policy's own time is over."
    REPLAYED = "replayed", "Seen before; the stored result is the answer."
    ID_CONFLICT = "id_conflict", "The id of another command, with other content."
    SEQUENCE_CONFLICT = (
        "sequence_conflict",
        "The sequence number of another command of this issuer for this device.",
    )
    SUPERSEDED = "superseded", "A later command of the same issuer for the same slot has come."
    EXPIRED = "expired", "Its time is over."
    VALID_TOO_LONG = "valid_too_long", "Valid for longer than the policy allows for its action."
    CLOCK_UNSURE = "clock_unsure", "The hub cannot tell whether its time is over."
    NEEDS_APPROVAL = "needs_approval", "The policy asks for more approvals of this very command."
    NOT_YET_VALID = "not_yet_valid", "Issued in what the hub takes for the future."
    DEVICE_UNKNOWN = "device_unknown", "No device of that id is admitted at this hub."
    NOT_ALLOWED = "not_allowed", "The policy does not let this issuer do this to this device."
    BANNED = "banned", "The policy bans this action, device or key for good."
    STOPPED = "stopped", "The kill switch is thrown for this kind of command."
    BREAKER_OPEN = (
        "breaker_open",
        "Too many such commands of this origin were refused; for a while none is taken.",
    )
    TOO_MANY_HELD = (
        "too_many_held",
        "So many commands of this issuer wait for the time or for somebody's word that no more are held.",
    )
    NOT_LATER = "not_later", "A later order about the same kind of command has come."
    UNSUPPORTED_ACTION = "unsupported_action", "The device has no such action."
    BAD_ARGUMENTS = "bad_arguments", "An argument is missing, unknown, or out of the device's range."
    CANNOT_CONFIRM = "cannot_confirm", "The device cannot prove the level that the policy asks for."
    ARTIFACT_NOT_APPROVED = (
        "artifact_not_approved",
        "No signed list that is trusted names this artifact with this sha256.",
    )
    ARTIFACT_UNSIGNED = (
        "artifact_unsigned",
        "No metadata that are trusted and in time sign for this artifact with this sha256.",
    )
    ARTIFACT_REVOKED = "artifact_revoked", "The artifact was signed for once and is no more."
    ARTIFACT_MISFIT = "artifact_misfit", "The artifact is for another family, model or hardware."
    ARTIFACT_TOO_OLD = "artifact_too_old", "The artifact's version is below the floor of this model."
    ARTIFACT_NOT_NEWER = "artifact_not_newer", "The device runs this version or a later one."
    SERVES_NO_FILES = (
        "serves_no_files",
        "Devices cannot fetch files from this hub: its configuration has no [firmware].",
    )
    UNFIT_STATE = "unfit_state", "The device is not in a state in which this can be done."
    STALE = "stale", "The device's state has changed since the issuer decided."
    OPERATION_RUNNING = "operation_running", "The same operation is being carried out."
    OPERATION_DONE = "operation_done", "The same operation has been carried out; its result is the answer."
    OUTCOME_UNKNOWN = (
        "outcome_unknown",
        "An earlier try of this one-shot may have worked; a person or a fresh read has to tell.",
    )

    # It waits.
    DEVICE_BUSY = "device_busy", "Another command works the device."
    DEVICE_OFFLINE = "device_offline", "The device is not connected."
    BROKER_AWAY = "broker_away", "The broker cannot be reached; nothing was sent."
    RETRYING = "retrying", "A try failed; the next one is due later."
    TAKEN_OVER = "taken_over", "Who worked on it stopped; the device is read afresh before anything is sent."
    LEASE_LOST = "lease_lost", "Whoever worked on it stopped again and again; it is not begun once more."
    ROLLOUT_WINDOW = (
        "rollout_window",
        "No window of the policy is open, or it closes before an update is over.",
    )
    ROLLOUT_CANARY = "rollout_canary", "The first devices of its list are not done yet."
    ROLLOUT_LIMIT = "rollout_limit", "As many devices are being updated as the policy allows at once."
    ROLLOUT_PAUSED = "rollout_paused", "A person at the hub has paused the update of its list."
    ROLLOUT_STOPPED = "rollout_stopped", "Too many devices of its list ended badly; a person has to look."
    ROLLOUT_ABORTED = "rollout_aborted", "A person at the hub has called off what was not begun of its list."
    CALLED_OFF = "called_off", "A person at the hub has called it off before anything was set off."
    RETRY_THRESHOLD = "retry_threshold", "It had to be tried more often than the policy takes for normal."

    # It was tried.
    DEVICE_REFUSED = "device_refused", "The device itself said no."
    NO_CONFIRMATION = "no_confirmation", "The device did not show the effect in time."
    OTHER_VALUE = "other_value", "Read back, the device shows another value."
    BROKER_REFUSED = "broker_refused", "The broker did not take the message."
    ALREADY_SO = "already_so", "A live reading shows what was asked for; nothing was sent."

    # What devices send.
    INVALID_UTF8 = "invalid_utf8", "A payload that is not UTF-8."
    INVALID_PAYLOAD = "invalid_payload", "A payload that its profile cannot read."
    UNUSABLE_VALUE = "unusable_value", "NaN, out of range, or not of the reading's type."
    RETAINED_COMMAND = (
        "retained_command",
        "A retained message lies on a command topic: it would act at the next reconnect.",
    )
    FLAPPING = "flapping", "The device goes on and off faster than its states are reported."
