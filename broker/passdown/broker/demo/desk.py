"""The agents and tools of the airline desk, for a worker: ``--module passdown.broker.demo.desk``.

Small rules stand in for models: what is to be seen is how their work is handed on. The tools write to the
demo's journal, which plays the outside world, and in two cases it takes their worker down with it.
"""

import os
import signal
from functools import cache
from typing import Any

from passdown.agents import (
    Absent,
    AgentResult,
    Context,
    Denied,
    Done,
    Escalate,
    Found,
    NeedsInput,
    NotDone,
    Pack,
    Question,
    Refused,
    SyncContext,
    agent,
    tool,
)
from passdown.broker.demo.cases import desk
from passdown.broker.demo.journal import Journal
from passdown.broker.demo.place import folder_of_worker
from passdown.contracts.errors import ContractError
from passdown.contracts.ids import session_of

# The outside


@cache
def _outside() -> Journal:
    place = folder_of_worker()
    if place is None:
        raise ContractError("environment", "the desk's tools work in a demo's own processes only")
    return Journal(place.journal)


def _find(*, key: str) -> Found | Absent:
    written = _outside().find(key)
    return Found(written.result) if written else Absent()


def _write(tool_name: str, key: str, args: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Write outside. Where an accident was arranged, the whole worker is killed, before or after."""
    session = session_of(key)
    if _outside().strikes(session, "before-write"):
        os.kill(os.getpid(), signal.SIGKILL)
    written: dict[str, Any] = _outside().apply(key, tool_name, args, result)
    if _outside().strikes(session, "after-write"):
        os.kill(os.getpid(), signal.SIGKILL)
    return written


@tool("reservations.read", scope="reservations:read")
def read_reservation(reservation_id: str) -> dict[str, str]:
    """Return a reservation."""
    return desk().reservations[reservation_id]


@tool("rules.read", fresh_for="1h")
def read_rules() -> dict[str, str]:
    """Return the airline's rules by name."""
    return desk().rules


@tool(
    "reservations.change",
    scope="reservations:write",
    effect=True,
    verify=_find,
    dedupes=True,
)
def change_reservation(reservation_id: str, flight: str, *, key: str) -> dict[str, Any]:
    """Put a reservation on another flight."""
    if flight in desk().full:
        _outside().refuse(key, "reservations.change")
        raise NotDone(f"flight {flight} is full")
    args = {"reservation_id": reservation_id, "flight": flight}
    return _write("reservations.change", key, args, {"reservationId": reservation_id, "flight": flight})


@tool(
    "refunds.create",
    scope="refunds:write",
    effect=True,
    identity=["reservation_id"],
    verify=_find,
    dedupes=True,
)
def create_refund(reservation_id: str, cents: int, *, key: str) -> dict[str, Any]:
    """Pay money back."""
    args = {"reservation_id": reservation_id, "cents": cents}
    return _write("refunds.create", key, args, {"refundId": f"R-{key[-6:]}", "cents": cents})


@tool("mail.send", scope="mail:write", effect=True, verify=_find, dedupes=True)
def send_mail(to: str, text: str, *, key: str) -> dict[str, Any]:
    """Write to the customer."""
    return _write("mail.send", key, {"to": to, "text": text}, {"mailId": f"M-{key[-6:]}"})


# The agents


@agent("reader", version="1")
async def reader(pack: Pack, ctx: Context) -> AgentResult:
    """Fetch the reservation."""
    return Done(
        {"reservation": await ctx.call("reservations.read", reservation_id=pack.inputs["reservationId"])}
    )


@agent("clerk", version="1")
async def clerk(pack: Pack, ctx: Context) -> AgentResult:
    """Decide by the rules."""
    slip, wish = pack.inputs.get("slip"), pack.inputs["wish"]
    rules: dict[str, str] = await ctx.call("rules.read")
    if slip == "contract" and not any(one.kind == "contract" for one in pack.feedback):
        return Done({"decision": "surely"})
    if slip == "tool":
        await _overreach(pack, ctx)
    if wish.get("lawyer"):
        return Escalate("the customer speaks of a lawyer", recommended="call back", risks=["a complaint"])
    if wish.get("child"):
        return _decided("person", rules["children"])
    if wish["kind"] == "refund":
        return _decided("write", rules["refunds"])
    if pack.inputs["reservation"]["cabin"] == "basic economy":
        return Refused(rules["fares"], policy="fares")
    more = wish.get("moreCents")
    if more:
        offer = f"The new flight costs {more / 100:.2f} more. Shall we book it?"
        return _decided("confirm", rules["price"], offer=offer)
    return _decided("write", rules["fares"])


def _decided(decision: str, rule: str, **more: str) -> Done:
    return Done({"decision": decision, **more}, evidence=[{"claim": rule, "source": "rules.read"}])


async def _overreach(pack: Pack, ctx: Context) -> None:
    try:
        await ctx.call("refunds.create", reservation_id=pack.inputs["reservationId"], cents=1)
    except Denied as error:
        ctx.log.info("not granted here", action="denied", error=str(error))


@agent("frontdesk", version="1")
async def frontdesk(pack: Pack, ctx: Context) -> AgentResult:
    """Ask the customer."""
    if "confirm" not in ctx.answers:
        return NeedsInput([Question("confirm", pack.inputs["offer"], schema={"enum": ["yes", "no"]})])
    return Done({"confirmed": ctx.answers["confirm"]})


@agent("writer", version="1")
def writer(pack: Pack, ctx: SyncContext) -> AgentResult:
    """Write, then tell the customer. A plain function: it runs in a thread of the pool."""
    # An attempt that finds a snapshot goes on behind it: the same call again would be a second change.
    said = ctx.snapshot["said"] if ctx.snapshot else _written(pack, ctx)
    if not said:
        return Escalate("every flight that the customer would take is full")
    ctx.checkpoint({"said": said})
    ctx.call("mail.send", to=pack.inputs["customer"], text=said)
    return Done({"said": said})


def _written(pack: Pack, ctx: SyncContext) -> str:
    return _refund(pack, ctx) if pack.inputs["wish"]["kind"] == "refund" else _change(pack, ctx)


def _change(pack: Pack, ctx: SyncContext) -> str:
    for flight in pack.inputs["wish"]["flights"]:
        try:
            ctx.call("reservations.change", reservation_id=pack.inputs["reservationId"], flight=flight)
        except NotDone as error:
            ctx.log.info("the next one then", action="tool-error", error=str(error))
        else:
            return f"You are on flight {flight}."
    return ""


def _refund(pack: Pack, ctx: SyncContext) -> str:
    wish = pack.inputs["wish"]
    try:
        ctx.call("refunds.create", reservation_id=pack.inputs["reservationId"], cents=wish["cents"])
    except Denied:
        return "We cannot refund this."
    return f"We refund {wish['cents'] / 100:.2f}."
