"""A pack as a message for a worker that may not reach the store: `passdown.push/1` (DESIGN §4, push delivery).

The worker gives back `passdown.return/1` on the queue ``returns``, with ``claimId`` from here, and with
``sessionId``, ``step``, ``attempt``, ``stage`` and ``digest`` (as ``packDigest``) from the pack.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta

from passdown.contracts.codec import Wire, digest_of
from passdown.contracts.pack import Pack

PUSH_SPEC: Final = "passdown.push/1"
#: The queue on which returns come back.
RETURNS_QUEUE: Final = "passdown.returns"
#: What sets a role queue in the store apart, from which packs are pushed: no role has a slash in its name.
_PUSHED = "push/"


class Push(Wire, frozen=True, kw_only=True):
    """`passdown.push/1`: one attempt's pack, and the claim under which its return counts.

    ``leaseUntil`` (milliseconds since the epoch, by the clock of whoever pushed it) tells until when the work is
    worth doing: a later return may find the attempt given to another. ``returns`` names the queue for the return.
    """

    spec: Literal["passdown.push/1"] = PUSH_SPEC
    claim_id: Annotated[str, Meta(min_length=8, max_length=64)]
    lease_until: int
    returns: str = RETURNS_QUEUE
    pack: Pack


def pushed(role: str) -> str:
    """Return the role queue in the store on which packs of `role` wait to be pushed."""
    return f"{_PUSHED}{role}"


def role_of_pushed(queue: str) -> str | None:
    """Return the role whose packs are pushed from a role queue of the store; None for one that workers take from."""
    return queue.removeprefix(_PUSHED) if queue.startswith(_PUSHED) else None


def push_queue(role: str) -> str:
    """Return the message queue to which packs of `role` are pushed."""
    return f"passdown.push.{role}"


def push_claim_id(session_id: str, step: int, attempt: int, pack_digest: str) -> str:
    """Return the id of the claim that pushing an attempt is.

    It follows from the attempt, so that a pack which is pushed twice, by whomever, is held by one claim, and a
    return that is quicker than the record of its claim is known for what it is.
    """
    return digest_of(["push", session_id, step, attempt, pack_digest])[:32]
