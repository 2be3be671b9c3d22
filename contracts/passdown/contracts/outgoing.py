"""What is told outside about a session: CloudEvents 1.0, as JSON in structured mode (DESIGN §11).

The same change of the same session always has the same ``source`` and ``id``, however often it is told:
whoever reads drops what it has seen. More attributes may come; readers skip those they do not know.
"""

import re
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from passdown.contracts.codec import KIB, Record
from passdown.contracts.errors import ContractError

CONTENT_TYPE = "application/cloudevents+json"
#: What intermediaries of CloudEvents must pass on (CloudEvents 1.0, "Size Limits"); a larger output goes by its digest.
OUTGOING_BUDGET = 64 * KIB
#: The longest names of queues and exchanges (characters).
LONGEST_NAME = 100

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
#: Queues of ours, and of the transports: a message for others that lay there would feed pools, or break a transport.
_TAKEN_PREFIXES = ("passdown.", "amq.")
_TAKEN = frozenset({"unacked", "unacked_index", "unacked_mutex"})


class Change(Record, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Where a session stands from here on. ``before`` is the status that was told last; none for the first.

    ``parent`` is the session whose fan-out opened this one, and ``branch`` the name that it has there; others have none.
    """

    status: str
    before: str = ""
    task_id: str
    task_name: str
    key: str
    plan: str
    stage: str
    step: int
    parent: str = ""
    branch: str = ""


class Outcome(Change, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """How a session ended. An output too large for a message goes by its digest and size in bytes.

    A session that failed may be retried; then it has another outcome later.
    """

    output: Any | UnsetType = UNSET
    output_digest: str = ""
    output_bytes: int = 0
    reason: str = ""
    policy: str = ""


class _CloudEvent(Record, frozen=True, kw_only=True, forbid_unknown_fields=False, tag_field="type"):
    """The attributes of CloudEvents; ``taskid`` and ``traceparent`` are extensions."""

    specversion: Literal["1.0"]
    #: The session's id and the event of its log that this tells of.
    id: str
    source: str
    subject: str
    time: str
    datacontenttype: Literal["application/json"]
    taskid: str
    traceparent: str = ""


class StatusEvent(
    _CloudEvent, frozen=True, kw_only=True, forbid_unknown_fields=False, tag="passdown.session.status.v1"
):
    """A session's status changed. ``subject`` is the session, ``id`` the session and the place in its log."""

    data: Change


class OutcomeEvent(
    _CloudEvent, frozen=True, kw_only=True, forbid_unknown_fields=False, tag="passdown.session.outcome.v1"
):
    """A session ended. ``subject`` is the session, ``id`` the session and the place in its log."""

    data: Outcome


Outgoing = StatusEvent | OutcomeEvent


def check_name(name: str, *, what: str, pointer: str = "") -> None:
    """Raise ContractError unless a queue or an exchange of others may have this name."""
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        problem = f"expected 1 to {LONGEST_NAME} letters, digits and _ . : - (a letter or digit first), got {name[:LONGEST_NAME]!r}"
        raise ContractError(what, problem, pointer=pointer)
    if name.startswith(_TAKEN_PREFIXES) or name in _TAKEN:
        taken = f"{name!r} belongs to Passdown or its transport; take a name of your own"
        raise ContractError(what, taken, pointer=pointer)
