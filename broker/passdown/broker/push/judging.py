"""Judges a return that came as a message: it counts, is fenced, is rejected, or is junk (rules 2 and 11).

Anybody who reaches the queue can put bytes there. They count against an attempt only where they carry its
fence and the digest of its pack, which nobody knows who has not seen the pack.
"""

from typing import Literal, NamedTuple

import structlog
from msgspec import Struct

from passdown.broker.acts import Act, Held, held_of
from passdown.broker.controller import Controller
from passdown.broker.core.parts import Issued
from passdown.broker.core.state import State
from passdown.broker.stores.base import Quarantine, Store
from passdown.contracts import commands as cmd
from passdown.contracts.codec import KIB, clean_text, decode
from passdown.contracts.errors import ContractError, Fenced, NotFound, PassdownError, Unavailable
from passdown.contracts.push import RETURNS_QUEUE, push_claim_id
from passdown.contracts.replies import Rejected, Reply, raise_refusal, read_reply
from passdown.contracts.returns import Fence, read_return

#: So much of a message is kept in quarantine (bytes).
KEPT = 64 * KIB
_SERVICE = "service:push"

_log = structlog.get_logger("passdown.push")


class Judged(NamedTuple):
    """What became of a message. ``reason`` says why it did not count; ``again``: it was recorded before."""

    fate: Literal["accepted", "fenced", "rejected", "junk"]
    reason: str = ""
    again: bool = False


class _Address(Struct, frozen=True, rename="camel"):
    """Of a return, what says which attempt it belongs to; the rest may be anything."""

    session_id: str
    step: int
    attempt: int
    claim_id: str
    pack_digest: str


def take_in(controller: Controller, body: bytes, content_type: str) -> Judged:
    """Judge what came on the queue of returns, and keep in quarantine what does not count.

    The same return again changes nothing, and a rejected one is kept the first time only; its session has the
    reason in any case. Raises Unavailable where the store stays away: then it must come again.
    """
    judged = judge(controller, body, content_type)
    if judged.fate in ("rejected", "junk") and not judged.again:
        controller.patiently(lambda: put_aside(controller.store, RETURNS_QUEUE, judged.reason, body))
    return judged


def judge(controller: Controller, body: bytes, content_type: str = "application/json") -> Judged:
    """Judge a message, and let the session know where it belongs to one. Raises Unavailable."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json":
        return Judged("junk", f"expected the content type application/json, got {clean_text(kind, 100)!r}")
    try:
        return _judge(controller, body)
    except Unavailable:
        raise
    except Fenced as error:
        return Judged("fenced", str(error))
    except PassdownError as error:
        return Judged("junk", str(error))
    except Exception as error:  # noqa: BLE001 - one message that nobody foresaw must not keep the others waiting
        _log.exception("push.return_broken", bytes=len(body))
        return Judged("junk", f"it could not be judged: {error!r}")


def put_aside(store: Store, source: str, reason: str, body: bytes) -> None:
    """Keep the beginning of a message in quarantine, and say so. Raises Unavailable."""
    if len(body) > KEPT:
        reason = f"{reason} (of its {len(body)} bytes the first {KEPT} are kept)"
    _log.warning("push.quarantined", source=source, bytes=len(body), reason=reason)
    store.put(Quarantine(source=source, reason=clean_text(reason), body=body[:KEPT]))


def _judge(controller: Controller, body: bytes) -> Judged:
    address = decode(body, _Address, what="return")
    session_id = address.session_id
    fence = Fence(step=address.step, attempt=address.attempt, claim_id=address.claim_id)
    give = cmd.Give(fence=fence, body=body.decode("utf-8", "backslashreplace"))
    act = Act(session_id, give, _SERVICE, None)
    loaded = controller.patiently(lambda: controller.store.load(session_id, act.id, act.digest), session_id)
    controller.catalog.heard(loaded.catalog)
    held = held_of(loaded.state, loaded.now, loaded.catalog)
    state = held.state
    if state is None:
        raise NotFound("session", clean_text(session_id, 100))
    if loaded.reply is not None:
        reply = read_reply(loaded.reply)
        raise_refusal(reply)
        return _judged(reply, again=True)
    issued = state.issued
    by = f"agent:{issued.role}" if issued else _SERVICE
    if issued is None or not _is_current(state, issued, address):
        read_return(body)  # only what is a return is recorded as one that came too late
    elif address.pack_digest != issued.digest:
        raise ContractError("return", "it is not of the pack of this attempt", pointer="/packDigest")
    elif state.claim is None:
        held = _claim(controller, state, issued, held, by)
    return _judged(controller.run(session_id, give, by, held=held).reply)


def _judged(reply: Reply, *, again: bool = False) -> Judged:
    if isinstance(reply, Rejected):
        return Judged("rejected", reply.problem, again)
    return Judged("accepted", again=again)


def _is_current(state: State, issued: Issued, address: _Address) -> bool:
    return (address.step, address.attempt, address.claim_id) == (
        state.step,
        issued.attempt,
        _claim_id(state, issued),
    )


def _claim_id(state: State, issued: Issued) -> str:
    """Return the claim under which the return of what is issued counts; empty where no worker has it yet."""
    if state.claim is not None:
        return state.claim.claim_id
    if issued.delivery == "push":
        return push_claim_id(state.session_id, state.step, issued.attempt, issued.digest)
    return ""


def _claim(controller: Controller, state: State, issued: Issued, held: Held, by: str) -> Held | None:
    """Record the claim of a pack that was pushed, where its return is quicker than whoever pushed it."""
    fence = Fence(step=state.step, attempt=issued.attempt, claim_id=_claim_id(state, issued))
    body = cmd.Claim(fence=fence, pack_digest=issued.digest, agent=issued.role)
    return controller.run(state.session_id, body, by, held=held).held
