import os
import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from passdown.broker.core.packing import fill, granted, in_scope
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import KIB, PACK_BUDGET, digest, encode
from passdown.contracts.pack import Pack, read_pack
from passdown.contracts.plans import Grant, Level, Next, Plan, Returns, Stage
from passdown.contracts.schema import problems
from tests.unit.core import situations
from tests.unit.core.plans import ARGS, MAIL, READ, REFUND, one, stage, two, writing
from tests.unit.core.spec import START, Session, like

RICH = stage(
    goal="Refund {inputs.order} to {inputs.who.name}",
    constraints=["be kind"],
    done_when=["money is back"],
    tools=[
        Grant(tool="orders.read"),
        Grant(tool="refund", approve="approvers", params={"cents": {"maximum": 5_000}}),
    ],
    returns=Returns(schema={"type": "object"}, evidence="optional"),
    escalation=[Level(queue="leads", after_seconds=60.0)],
    risk="high",
    lease_seconds=30.0,
    deadline_seconds=600.0,
    recovery="continue",
)


def rich(stage_: Stage = RICH, **more: Any) -> Session:
    plan = Plan(name="refund", version=3, start="pay", stages={"pay": stage_})
    return Session(plan, READ, REFUND, **more).submit({"order": "4711", "who": {"name": "Ann"}})


def note(n: int, **fields: Any) -> cmd.ToolNote:
    known: dict[str, Any] = {"tool": "orders.read", "args": {"id": n}, "kept": True, "result": n, **fields}
    return cmd.ToolNote(**known)


def test_a_pack_says_how_long_a_run_may_take_and_nothing_where_that_is_not_limited() -> None:
    """Packs without a limit keep the bytes that they had before there was one, and so their digests."""
    limited = rich(replace(RICH, time_limit_seconds=90.0)).pack
    assert limited.time_limit_seconds == 90.0
    assert b'"leaseSeconds":30.0,"timeLimitSeconds":90.0,"changes"' in encode(limited)
    assert read_pack(encode(limited)) == limited
    assert b"timeLimit" not in encode(rich().pack)


def test_a_pack_says_all_that_its_attempt_needs() -> None:
    session = rich()
    pack = session.pack
    assert (pack.plan, pack.stage, pack.role, pack.cause) == ("refund@3", "pay", "worker", "first")
    assert (pack.session_id, pack.task_id) == (session.id, session.state.task_id)
    assert (pack.step, pack.attempt) == (1, 1)
    assert pack.goal == "Refund 4711 to Ann"
    assert (pack.constraints, pack.done_when) == (["be kind"], ["money is back"])
    assert pack.inputs == {"order": "4711", "who": {"name": "Ann"}}
    assert (pack.returns.evidence, pack.escalation[0].queue) == ("optional", "leads")
    assert (pack.risk, pack.lease_seconds, pack.deadline) == ("high", 30.0, START + 600_000)
    assert (pack.changes, pack.left_out) == ([], 0)
    read, refund = pack.tools
    assert (read.name, read.effect, read.fresh_for_seconds, read.needs_approval) == (
        "orders.read",
        False,
        60.0,
        False,
    )
    assert (refund.name, refund.effect, refund.scope, refund.needs_approval) == (
        "refund",
        True,
        "refunds:write",
        True,
    )
    assert refund.identity == ["order", "cents"]
    assert (read.digest, refund.digest) == (
        session.registered["orders.read"][0],
        session.registered["refund"][0],
    )


def test_the_event_says_of_the_pack_what_is_needed_without_it() -> None:
    session = rich()
    (event,) = (one_ for one_ in session.last if isinstance(one_, ev.PackIssued))
    raw = encode(session.pack)
    assert (event.digest, event.bytes, event.lease_ms) == (session.pack.digest, len(raw), 30_000)
    assert event.tools == {tool.name: tool.digest for tool in session.pack.tools}


def test_rule_05_the_pack_carries_the_narrowed_parameters() -> None:
    (_, refund) = rich().pack.tools
    assert problems(refund.params, {"order": "1", "cents": 5_000}) == []
    assert problems(refund.params, {"order": "1", "cents": 5_001}) != []
    assert problems(refund.params, {"order": "1", "cents": 0}) != []


# Rule 4: a worker sees only its pack


def test_rule_04_a_pack_holds_nothing_of_other_steps_but_outputs_and_what_happened() -> None:
    secret = "step-one-secret"
    grants = [Grant(tool="orders.read"), Grant(tool="mail")]
    session = Session(two(tools=grants), READ, MAIL).submit().claim()
    session.note(note(1, result=secret)).checkpoint({"draft": secret}).fail(secret).claim().ask("why")
    session.answer("why", secret).claim().done({"public": 1})
    assert secret not in encode(session.pack).decode()
    assert session.pack.inputs == {"public": 1}


def test_rule_04_a_pack_holds_no_principal_key_or_log() -> None:
    session = situations.queued()
    text = encode(session.pack).decode()
    assert "user:ann" not in text
    assert session.state.head not in text
    assert set(Pack.__struct_fields__) & {"key", "by", "log", "events", "status", "failures"} == set()


def test_rule_04_and_07_a_pack_of_one_session_is_no_use_in_another() -> None:
    from passdown.contracts.errors import ContractError

    left, right = Session(two(), key="left").submit(), Session(two(), key="right").submit()
    body = cmd.Claim(fence=right.next_fence(), pack_digest=left.pack.digest)
    right.refuses(ContractError, body, match="its digest is not that of attempt")


# The same bytes each time


def full() -> Session:
    """A session whose pack has something of everything."""
    session = rich().claim().note(note(1), note(2)).checkpoint({"b": 1, "a": [1, 2]}, {"x:1": 1, "a:1": 2})
    session.ask("why", "when").answer("when", {"z": 1, "a": 2}).answer("why", 1).claim().fail("boom").claim()
    session.intend("refund", ARGS)
    return session.resolve("approve")


def test_the_same_state_and_plan_give_the_same_bytes() -> None:
    first, second = full(), full()
    assert encode(first.pack) == encode(second.pack)
    assert first.pack.digest == second.pack.digest == digest(encode(replace(first.pack, digest="")))


@pytest.mark.parametrize("seed", ["0", "7", "4242"])
def test_another_process_with_another_hash_seed_gives_the_same_bytes(seed: str) -> None:
    code = "from tests.unit.core.test_packing import full; print(full().pack.digest)"
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == [full().pack.digest]


def test_consecutive_packs_share_a_long_prefix() -> None:
    """Stable parts first: what caches prompts profits from it."""
    session = rich()
    first = encode(session.pack)
    session.claim().fail()
    pairs = zip(first, encode(session.pack), strict=False)
    shared = next(n for n, (one_, other) in enumerate(pairs) if one_ != other)
    assert shared > 0.7 * len(first)


def test_a_pack_can_be_read_back_and_an_altered_one_cannot() -> None:
    from passdown.contracts.errors import ContractError

    raw = encode(full().pack)
    assert encode(read_pack(raw)) == raw
    with pytest.raises(ContractError, match="digest"):
        read_pack(raw.replace(b'"be kind"', b'"be rude"'))


def test_the_goal_is_filled_from_the_inputs() -> None:
    data = {"a": "x", "b": {"c": 3, "d": None}, "e": [1]}
    assert (
        fill("{inputs.a} {inputs.b.c} {inputs.b.d} {inputs.e} {inputs.b}", data)
        == 'x 3 null [1] {"c":3,"d":null}'
    )
    assert fill("{inputs.none} {inputs.a.b} {other} {}", data) == "{inputs.none} {inputs.a.b} {other} {}"


# What this step has gathered


def test_a_read_is_relied_on_as_long_as_it_is_fresh() -> None:
    session = rich().claim().note(note(1)).tick(60_000).release()
    (kept,) = session.pack.reads
    assert (kept.result, kept.age_seconds, kept.read_again) == (1, 60.0, False)
    session.claim().tick(1).release()
    (stale,) = session.pack.reads
    assert (stale.result, stale.age_seconds, stale.read_again) == (None, 60.001, True)


def test_a_read_that_was_not_kept_is_to_be_read_again() -> None:
    session = rich().claim().note(note(1, kept=False), note(2, result="x" * (4 * KIB))).release()
    assert [(one_.result, one_.read_again) for one_ in session.pack.reads] == [(None, True), (None, True)]


def test_the_same_call_again_takes_the_place_of_the_old_one() -> None:
    session = rich().claim().note(note(1, result="old"), note(2)).note(note(1, result="new")).release()
    assert [(one_.args["id"], one_.result) for one_ in session.pack.reads] == [(2, 2), (1, "new")]


def test_a_tool_without_a_limit_is_relied_on_for_the_whole_step() -> None:
    session = (
        Session(one(tools=[Grant(tool="orders.read")]), replace(READ, fresh_for_seconds=None))
        .submit()
        .claim()
    )
    session.note(note(1)).tick(10**9).release()
    assert session.pack.reads[0].result == 1


def test_a_tool_whose_results_are_never_fresh_is_always_read_again() -> None:
    session = (
        Session(one(tools=[Grant(tool="orders.read")]), replace(READ, fresh_for_seconds=0.0)).submit().claim()
    )
    session.note(note(1)).tick(1).release()
    assert session.pack.reads[0].read_again


def test_effects_tell_what_happened_and_of_this_step_what_is_open() -> None:
    session = situations.running(next=Next(to="tell"))
    session.report(session.run("refund", ARGS), result="x" * (5 * KIB))
    session.report(session.run("mail", {"to": "a"}), "failed", error="no such mailbox").release()
    done, failed = session.pack.effects
    assert (done.status, done.omitted, done.result, done.args) == ("done", True, None, ARGS)
    assert (failed.status, failed.error) == ("failed", "no such mailbox")
    session.claim().done()
    assert [told.tool for told in session.pack.effects] == ["refund"], (
        "what failed in an earlier step is over"
    )


def test_a_result_that_is_null_is_not_left_out() -> None:
    session = situations.running()
    session.report(session.run("mail", {"to": "a"}), result=None).release()
    (told,) = session.pack.effects
    assert (told.result, told.omitted) == (None, False)


# The newest plan (DESIGN §7)


def newest(session: Session, stage_: Stage | None) -> Session:
    stages = {"pay": stage_} if stage_ else {"other": stage()}
    session.newest = Plan(name="refund", version=4, start=next(iter(stages)), stages=stages)
    return session.claim().release()


def test_constraints_that_the_newest_plan_added_bind_and_are_said() -> None:
    session = newest(rich(), replace(RICH, constraints=["be kind", "log it"], goal="other", done_when=[]))
    assert session.pack.constraints == ["be kind", "log it"]
    assert session.pack.changes == ["a constraint was added: log it"]
    assert (session.pack.goal, session.pack.done_when) == ("Refund 4711 to Ann", ["money is back"])
    (event,) = (one_ for one_ in session.last if isinstance(one_, ev.PackIssued))
    assert event.changes == session.pack.changes


def test_constraints_that_the_newest_plan_dropped_still_bind() -> None:
    assert newest(rich(), replace(RICH, constraints=[])).pack.constraints == ["be kind"]


def test_rule_05_a_tool_that_the_newest_plan_withdrew_is_gone_and_that_is_said() -> None:
    session = newest(rich(), replace(RICH, tools=RICH.tools[:1]))
    assert [tool.name for tool in session.pack.tools] == ["orders.read"]
    assert session.pack.changes == ["the tool refund is no longer granted"]


def test_rule_05_a_stage_that_the_newest_plan_does_not_have_grants_nothing() -> None:
    session = newest(rich(), None)
    assert session.pack.tools == []
    assert len(session.pack.changes) == 2


def test_rule_05_a_tool_that_the_newest_plan_added_is_not_granted() -> None:
    session = newest(rich(), replace(RICH, tools=[*RICH.tools, Grant(tool="mail")]))
    assert [tool.name for tool in session.pack.tools] == ["orders.read", "refund"]
    assert session.pack.changes == []


def test_rule_05_the_newest_plan_may_narrow_further_and_ask_for_approval() -> None:
    plain = replace(RICH, tools=[Grant(tool="refund", params={"cents": {"maximum": 5_000}})])
    tight = Grant(
        tool="refund", approve="security", params={"cents": {"maximum": 10}, "memo": {"const": "m"}}
    )
    session = newest(rich(plain), replace(plain, tools=[tight]))
    (tool,) = session.pack.tools
    assert tool.needs_approval
    assert problems(tool.params, {"order": "1", "cents": 11}) != []
    assert problems(tool.params, {"order": "1", "cents": 10, "memo": "n"}) != []
    assert problems(tool.params, {"order": "1", "cents": 10, "memo": "m"}) == []
    assert session.pack.changes == [
        "the parameters of refund are narrowed further",
        "the tool refund needs an approval of security",
    ]


def test_rule_05_the_newest_plan_gives_no_more_than_the_pinned_one() -> None:
    wide = replace(RICH, tools=[RICH.tools[0], Grant(tool="refund")])
    (_, refund) = newest(rich(), wide).pack.tools
    assert refund.needs_approval
    assert problems(refund.params, {"order": "1", "cents": 5_001}) != []


def test_a_tool_that_is_registered_anew_is_in_the_next_pack_as_it_is_now() -> None:
    session = rich()
    session.register(replace(READ, description="better"))
    session.claim().release()
    assert session.pack.tools[0].description == "better"


def test_a_tool_that_was_never_registered_is_named_as_missing() -> None:
    session = Session(writing(), REFUND)
    assert granted(session.given(), "work").missing == ["mail"]
    session.newest = one(tools=[Grant(tool="refund")])
    found = granted(session.given(), "work")
    assert (found.missing, found.changes) == ([], ["the tool mail is no longer granted"])


@pytest.mark.parametrize(
    ("pinned", "newer", "fits"),
    [
        (None, None, True),
        (["a"], None, False),
        (["refunds:write"], None, True),
        (None, ["a"], False),
        (["a"], ["refunds:write"], False),
    ],
)
def test_rule_05_a_scope_must_be_granted_by_both_plans(pinned: Any, newer: Any, fits: bool) -> None:
    session = Session(one(scopes=pinned), newest=one(scopes=newer))
    assert in_scope(session.given(), "work", REFUND) == fits
    assert in_scope(session.given(), "work", MAIL), "a tool without a scope needs none"


# Budget (rule 12)


def test_rule_12_the_oldest_reads_are_left_out_first_and_counted() -> None:
    session = rich().claim()
    session.checkpoint("x" * (44 * KIB))
    for n in range(6):
        session.note(note(n, result="r" * (3 * KIB)))
    session.release()
    assert len(encode(session.pack)) <= PACK_BUDGET
    kept = [one_.args["id"] for one_ in session.pack.reads]
    assert kept == list(range(6 - len(kept), 6))
    assert session.pack.left_out == 6 - len(kept) > 0
    (event,) = (one_ for one_ in session.last if isinstance(one_, ev.PackIssued))
    assert event.left_out == session.pack.left_out


def test_rule_12_old_answers_are_left_out_before_the_pack_becomes_a_ticket_and_new_ones_never() -> None:
    session = Session(one()).submit({"big": "x" * (48 * KIB)}).claim()
    session.ask("a").answer("a", "x" * (9 * KIB)).claim().ask("b").answer("b", "x" * (9 * KIB))
    assert [told.id for told in session.pack.answers] == ["b"]
    assert session.pack.left_out == 1
    session.claim().ask("c").answer("c", "x" * (15 * KIB + 900))
    session.then("InputProvided", like(ev.TicketOpened, kind="budget"))


def test_rule_12_unknown_effects_are_never_left_out() -> None:
    session = situations.running()
    for n in range(3):
        session.report(session.run("mail", {"to": str(n), "text": "x" * 3_000}), result="r" * 500)
    session.run("mail", {"to": "open", "text": "x" * (30 * KIB)})
    session.lose()
    assert session.pack.effects[-1].status == "unknown"


def test_rule_12_history_is_never_appended_to_a_pack() -> None:
    session = rich(replace(RICH, max_attempts=10_000))
    sizes: list[int] = []
    for n in range(60):
        session.claim().note(note(n, result="r" * KIB)).fail("x" * 1_500)
        sizes.append(len(encode(session.pack)))
    assert max(sizes) <= PACK_BUDGET
    assert sizes[-1] - sizes[-2] < 100, "a pack does not grow with the attempts"
    assert session.pack.left_out > 60
