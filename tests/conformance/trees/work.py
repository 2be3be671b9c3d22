"""What a worker does with a pack, well or badly: writes outside, reads what it merges, gives its return once or twice."""

import contextlib
from typing import Any, Literal, NamedTuple

from passdown.broker.core.join import FINAL
from passdown.broker.stores.queries import FindRows, RowOfJoin
from passdown.contracts import ids
from passdown.contracts.codec import encode
from passdown.contracts.commands import Verdict
from passdown.contracts.errors import PassdownError, Unavailable
from passdown.contracts.gateway import AgentInfo, BranchResult, Claim
from passdown.contracts.pack import Pack, PackJoin
from passdown.contracts.replies import Run
from tests.conformance.trees.plans import COUNT
from tests.conformance.trees.world import Late, Process, World

End = Literal["done", "fail", "refused", "escalate", "needs-input", "junk", "release", "vanish", "later"]
#: ``silent``: it is written, and nobody is told; ``never``: it was to be written, and was not.
Writing = Literal["ok", "silent", "never"]
ME = AgentInfo(name="worker", version="1")


class Script(NamedTuple):
    """How an agent behaves. ``twice``: its return is given again, by the other process; ``v`` is what it gives."""

    end: End = "done"
    v: int = 1
    writing: Writing = "ok"
    twice: bool = False


HONEST = Script()


def attempt(world: World, number: int, role: str, script: Script) -> bool:
    """Take a pack of a role and work on it as the script says; returns whether there was one."""
    process = world.processes[number % 2]
    with contextlib.suppress(Unavailable):
        offers = process.gateway.take(role, 1).offers
        if not offers:
            return False
        pack = offers[0].pack
        with contextlib.suppress(PassdownError):
            claim = process.gateway.claim(pack, world.claim_id(), ME)
            _work(world, number, pack, claim, script)
    return True


def _work(world: World, number: int, pack: Pack, claim: Claim, script: Script) -> None:
    process = world.processes[number % 2]
    if pack.cause == "settle":
        process.gateway.settle(
            claim, [_verdict(world, one.effect_id) for one in pack.effects if one.status == "unknown"]
        )
        return
    if any(tool.name == COUNT.name for tool in pack.tools) and not _write(
        world, process, pack, claim, script
    ):
        return
    if pack.join is not None:
        read_branches(world, process, claim, pack.join)
    body = _body(pack, claim, script)
    match script.end:
        case "vanish":
            pass
        case "later":
            world.late.append(Late(number + 1, claim, body))
        case "fail":
            process.gateway.fail(claim, "error", "it broke", [])
        case "release":
            process.gateway.release(claim, "shutting down", [])
        case _:
            process.gateway.give(claim, body, [])
            if script.twice:
                give(world, Late(number + 1, claim, body))


def give(world: World, late: Late) -> None:
    """Give a return late, or again: it counts if its claim still holds, and is fenced where not (rule 2)."""
    with contextlib.suppress(PassdownError):
        world.processes[late.process % 2].gateway.give(late.claim, late.body, [])


def _verdict(world: World, effect_id: str) -> Verdict:
    if world.outside[effect_id]:
        return Verdict(effect_id=effect_id, found="found", result={"n": 1})
    return Verdict(effect_id=effect_id, found="absent")


def _write(world: World, process: Process, pack: Pack, claim: Claim, script: Script) -> bool:
    """Add to what is counted outside, once for each session and step; returns whether the worker goes on."""
    args = {"who": pack.session_id}
    effect_id = ids.effect_id(pack.session_id, pack.step, COUNT.name, args, 1)
    counters = {f"{COUNT.name}:{ids.identity_digest(args)}": 1}
    reply = process.gateway.effect(claim, effect_id, COUNT.name, args, counters, None, [])
    if not isinstance(reply, Run):
        return True
    if script.writing != "never":
        world.outside[effect_id] += 1
    if script.writing != "ok":
        return False
    process.gateway.report(claim, effect_id, "done", result={"n": 1})
    return True


def read_branches(world: World, process: Process, claim: Claim, join: PackJoin) -> list[BranchResult]:
    """Read what a merge merges, and note where it is not one row for each branch that counts, as the branch gave it."""
    found: list[BranchResult] = []
    first: int | None = 0
    while first is not None:
        page = process.gateway.branches(claim, first)
        found += page.branches
        first = page.next
    places = [one.place for one in found]
    if len(found) != join.counted or places != sorted(set(places)):
        world.wrong.append(f"rule 4: a merge of {join} is given the places {places}")
    rows = {one.place: one for one in all_rows(world, join.join_id)}
    for one in found:
        branch = world.state(ids.branch_id(join.join_id, one.place))
        given = branch.outcome.output if branch.outcome and branch.outcome.result == "done" else None
        row = rows[one.place]
        if row.outcome != one.outcome or one.outcome not in FINAL:
            world.wrong.append(f"rule 1: a merge is told {one}, and the record says {row}")
        if one.outcome == "done" and (branch.over and one.output != given):
            world.wrong.append(f"rule 2: a merge is told {one}, and the branch gave {given}")
    return found


def all_rows(world: World, join_id: str) -> list[RowOfJoin]:
    rows: Any = world.inner.find(FindRows(join_id=join_id))
    return rows


def _body(pack: Pack, claim: Claim, script: Script) -> bytes:
    if script.end == "junk":
        return b'\xff\xfe{"result": "done"'
    head: dict[str, Any] = {
        "spec": "passdown.return/1",
        "sessionId": pack.session_id,
        "step": pack.step,
        "attempt": pack.attempt,
        "claimId": claim.fence.claim_id,
        "packDigest": pack.digest,
        "stage": pack.stage,
        "nextStep": None,
    }
    return encode({**head, **_content(script, pack)})


def _content(script: Script, pack: Pack) -> dict[str, Any]:
    match script.end:
        case "refused":
            return {"result": "refused", "reason": "no"}
        case "escalate":
            return {"result": "escalate", "reason": "help"}
        case "needs-input":
            return {"result": "needs-input", "questions": [{"id": "q1", "text": "how many?"}]}
        case _:
            return {"result": "done", "output": {"v": script.v, "by": f"{pack.session_id}/{pack.attempt}"}}
