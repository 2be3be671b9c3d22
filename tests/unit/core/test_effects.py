from typing import Any

import pytest
from msgspec.structs import replace

from passdown.broker.core.bounds import ARGS_BUDGET, ASKED_LIMIT
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts import ids
from passdown.contracts.codec import KIB
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Denied, Fenced
from passdown.contracts.plans import Grant, Next, Plan, Stage
from passdown.contracts.replies import Recorded, Run
from tests.unit.core import situations
from tests.unit.core.plans import ARGS, MAIL, READ, REFUND, one, stage, two, writing
from tests.unit.core.spec import Session, like

OTHER = {"order": "4711", "cents": 100}


def counter(args: dict[str, Any], tool: str = "refund") -> str:
    named = {name: args[name] for name in ("order", "cents")} if tool == "refund" else args
    return f"{tool}:{ids.identity_digest(named)}"


# Intent


def test_rule_03_an_intent_is_recorded_before_the_write() -> None:
    session = situations.running()
    reply = session.intend("refund", ARGS)
    assert isinstance(reply, Run)
    assert reply.args == ARGS
    session.then(
        like(
            ev.EffectIntended,
            effect_id=reply.effect_id,
            tool="refund",
            args=ARGS,
            n=1,
            claim_id="claim-001",
            counters={counter(ARGS): 1},
            approval=None,
        )
    ).stands("running")
    assert session.effect(reply.effect_id).status == "intended"


def test_an_effect_is_named_by_session_step_tool_identity_and_count() -> None:
    session = situations.running()
    effect = session.run("refund", ARGS)
    assert effect == ids.effect_id(session.id, 1, "refund", {"order": "4711", "cents": 900}, 1)
    assert ids.session_of(effect) == session.id


def test_rule_03_a_rerun_meets_the_same_effect_and_gets_its_outcome() -> None:
    session = situations.running()
    first = session.run("refund", ARGS)
    session.report(first, result={"id": 7}).lose().claim()
    assert session.intend("refund", ARGS) == Recorded(effect_id=first, status="done", result={"id": 7})
    session.nothing()


def test_an_argument_that_is_no_part_of_the_identity_does_not_make_another_effect() -> None:
    session = situations.running()
    first = session.run("refund", ARGS)
    session.report(first, result=1).lose().claim()
    assert session.intend("refund", {**ARGS, "memo": "again"}) == Recorded(
        effect_id=first, status="done", result=1
    )


def test_equal_calls_of_one_run_are_counted_apart() -> None:
    session = situations.running()
    first = session.run("mail", {"to": "a"})
    session.report(first)
    second = session.run("mail", {"to": "a"}, n=2)
    assert first != second


def test_a_run_from_a_snapshot_counts_on_from_its_counters() -> None:
    session = situations.running(recovery="continue")
    name = counter({"to": "a"}, "mail")
    first = session.run("mail", {"to": "a"})
    session.report(first).checkpoint({}, {name: 1}).lose().claim()
    assert session.pack.snapshot
    assert session.pack.snapshot.counters == {name: 1}
    assert session.run("mail", {"to": "a"}, n=2) != first


@pytest.mark.parametrize("change", ["effect_id", "counters", "args"])
def test_rule_11_an_effect_id_that_is_not_that_of_the_call_is_refused(change: str) -> None:
    session = situations.running()
    body = session.intent("refund", ARGS)
    other: dict[str, Any] = {"effect_id": f"{session.id}.e-x", "counters": {}, "args": OTHER}
    session.refuses(ContractError, replace(body, **{change: other[change]}), match="expected effectId")


def test_several_intents_may_run_side_by_side() -> None:
    session = situations.running()
    one_, two_ = session.run("mail", {"to": "a"}), session.run("mail", {"to": "b"})
    session.report(two_).report(one_).stands("running")
    assert [row.status for row in session.state.effects] == ["done", "done"]


def test_an_effect_that_is_under_way_is_not_begun_twice() -> None:
    session = situations.intended()
    session.refuses(Conflict, session.intent("refund", ARGS), match="is intended")


def test_rule_03_no_new_intent_while_an_effect_is_unknown() -> None:
    session = situations.intended()
    effect = session.state.effects[0].effect_id
    session.report(effect, "unknown", error="timed out")
    session.refuses(Conflict, session.intent("mail", {"to": "a"}), match="no new effect while one is unknown")
    session.report(effect).run("mail", {"to": "a"})


def test_a_settle_attempt_writes_nothing() -> None:
    session = situations.settle_running()
    session.refuses(Conflict, session.intent("mail", {"to": "a"}), match="only settles")
    effect = session.state.effects[0]
    session.report(effect.effect_id, claim_id=effect.claims[0])
    session.refuses(Conflict, session.intent("mail", {"to": "a"}), match="only settles")


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        ({"order": float("nan"), "cents": 1}, ContractError),
        ({"order": "x" * ARGS_BUDGET, "cents": 1}, BudgetExceeded),
    ],
)
def test_rule_11_arguments_that_may_not_travel_change_nothing(
    args: dict[str, Any], kind: type[ContractError]
) -> None:
    session = situations.running()
    body = replace(session.intent("refund", ARGS), args=args)
    session.refuses(kind, body, match="effect arguments")


def test_rule_12_effects_that_would_fill_the_state_are_refused() -> None:
    session = situations.running()
    body = session.intent("mail", {"to": "0", "text": "x" * (30 * KIB)})
    for n in range(1, 10):
        body = session.intent("mail", {"to": str(n), "text": "x" * (30 * KIB)})
        if len(session.state.effects) == ASKED_LIMIT // (30 * KIB):
            break
        session.do(body)
    session.refuses(BudgetExceeded, body, match="session state with this effect")


# Rule 5: the broker checks


@pytest.mark.parametrize(
    ("tool", "args", "why"),
    [
        ("transfer", {}, "stage work does not grant it"),
        ("orders.read", {"id": 1}, "stage work does not grant it"),
        ("refund", {"order": "1"}, '"cents" is a required property'),
        ("refund", {"order": "1", "cents": 0}, "/cents"),
        ("refund", {"order": "1", "cents": 1, "to": "me"}, "to"),
    ],
)
def test_rule_05_a_call_that_the_stage_does_not_grant_is_denied_and_recorded(
    tool: str, args: dict[str, Any], why: str
) -> None:
    session = situations.running()
    error = session.refused_and_recorded(Denied, session.intent(tool, args))
    assert why in str(error)
    session.then(like(ev.ToolDenied, tool=tool)).stands("running", effects=[])


def test_rule_05_a_stage_narrows_what_a_tool_may_be_given() -> None:
    narrowed = Grant(tool="refund", params={"cents": {"maximum": 5_000}})
    session = Session(one(tools=[narrowed]), REFUND).submit().claim()
    session.refused_and_recorded(Denied, session.intent("refund", {"order": "1", "cents": 5_001}))
    session.run("refund", {"order": "1", "cents": 5_000})


def test_rule_05_a_tool_of_another_stage_is_denied() -> None:
    plan = Plan(
        name="p",
        start="work",
        stages={"work": stage(tools=[Grant(tool="mail")], next=Next(to="tell")), "tell": stage()},
    )
    session = Session(plan, MAIL).submit().claim().done().claim()
    session.refused_and_recorded(Denied, session.intent("mail", {"to": "a"}))


def test_rule_05_a_scope_that_the_stage_does_not_name_is_denied() -> None:
    session = Session(one(tools=[Grant(tool="refund")], scopes=["mail:write"]), REFUND).submit().claim()
    assert "the tool refund has the scope 'refunds:write', which is not granted here" in session.pack.changes
    session.refused_and_recorded(Denied, session.intent("refund", ARGS))
    named = Session(one(tools=[Grant(tool="refund")], scopes=["refunds:write"]), REFUND).submit().claim()
    named.run("refund", ARGS)


def test_rule_05_a_reading_tool_does_not_write() -> None:
    session = Session(one(tools=[Grant(tool="orders.read")]), READ).submit().claim()
    error = session.refused_and_recorded(Denied, session.intent("orders.read", {"id": 1}))
    assert "registered as a reading tool" in str(error)


def test_rule_05_what_the_pack_does_not_carry_is_denied_though_it_is_registered_and_granted_by_now() -> None:
    session = Session(one(tools=[Grant(tool="refund")]), newest=one()).submit()
    session.register(REFUND)
    session.claim()
    session.newest = None
    session.refused_and_recorded(Denied, session.intent("refund", ARGS))


def test_rule_05_a_newer_plan_that_asks_for_less_binds_at_once() -> None:
    session = Session(one(tools=[Grant(tool="refund")]), REFUND).submit().claim()
    session.newest = one(tools=[Grant(tool="refund", params={"cents": {"maximum": 100}})])
    session.refused_and_recorded(Denied, session.intent("refund", ARGS))


# Failed


def failed() -> tuple[Session, str]:
    session = situations.running()
    effect = session.run("refund", ARGS)
    session.report(effect, "failed", error="no funds").then(like(ev.EffectFailed, error="no funds"))
    return session, effect


def test_a_failed_effect_is_tried_anew_where_nothing_was_recorded_after_it() -> None:
    session, effect = failed()
    session.fail().claim()
    assert session.run("refund", ARGS) == effect
    assert session.effect(effect).attempts == 2


def test_a_failed_effect_is_not_tried_anew_after_something_else_was_recorded() -> None:
    """What followed may rest on its having failed."""
    session, effect = failed()
    session.report(session.run("mail", {"to": "sorry"})).fail().claim()
    assert session.intend("refund", ARGS) == Recorded(effect_id=effect, status="failed", error="no funds")


def test_reading_calls_are_nothing_recorded_after_it() -> None:
    session, effect = failed()
    session.note(cmd.ToolNote(tool="orders.read", args={"id": 1})).fail().claim()
    assert session.run("refund", ARGS) == effect


# Done in an earlier step


def test_rule_03_what_was_done_in_an_earlier_step_does_not_run_again() -> None:
    session = situations.running()
    first = session.run("refund", ARGS)
    session.report(first, result=1).done().claim()
    assert session.intend("refund", ARGS) == Recorded(effect_id=first, status="done", result=1)


def test_a_repeatable_tool_runs_again_in_a_later_step() -> None:
    grants = [Grant(tool="mail")]
    session = Session(two(stage(tools=grants), tools=grants), replace(MAIL, repeatable=True)).submit().claim()
    first = session.run("mail", {"to": "a"})
    session.report(first).done().claim()
    assert session.run("mail", {"to": "a"}) != first


@pytest.mark.parametrize("phase", ["failed", "not-done"])
def test_what_did_not_happen_in_an_earlier_step_may_run_in_a_later_one(phase: str) -> None:
    session = situations.running()
    effect = session.run("mail", {"to": "a"})
    if phase == "failed":
        session.report(effect, "failed").done()
    else:
        session.lose().claim().settle(e1="absent").claim().done()
    session.claim()
    assert session.run("mail", {"to": "a"}) != effect


# A model that changed its mind (DESIGN §6)


def lost_after_refund(**fields: Any) -> tuple[Session, str]:
    session = situations.running(**fields)
    effect = session.run("refund", ARGS)
    session.report(effect, result=1).lose().claim()
    return session, effect


def test_rule_03_after_a_lost_attempt_another_identity_is_proposed_to_a_person() -> None:
    session, effect = lost_after_refund()
    session.intend("refund", OTHER)
    session.then(
        like(ev.EffectProposed, args=OTHER), like(ev.TicketOpened, kind="approval", queue="operators")
    ).stands("waiting-human")
    assert effect in session.state.tickets[0].why
    session.resolve("approve").claim().run("refund", OTHER)


def test_another_identity_that_names_what_it_comes_after_runs() -> None:
    session, effect = lost_after_refund()
    session.run("refund", OTHER, after=effect)


def test_naming_an_effect_that_is_not_in_question_does_not_help() -> None:
    session, _ = lost_after_refund()
    session.intend("refund", OTHER, after=f"{session.id}.e-other")
    session.then("EffectProposed", "TicketOpened")


def test_another_identity_runs_once_this_run_has_met_the_first_again() -> None:
    session, _ = lost_after_refund()
    session.intend("refund", ARGS)
    session.run("refund", OTHER, also={counter(ARGS): 1})


def test_another_identity_runs_where_the_snapshot_knows_the_first() -> None:
    session = situations.running(recovery="continue")
    effect = session.run("refund", ARGS)
    session.report(effect).checkpoint({}, {counter(ARGS): 1}).lose().claim()
    session.run("refund", OTHER, also={counter(ARGS): 1})


def test_another_tool_is_not_in_question() -> None:
    session, _ = lost_after_refund()
    session.run("mail", {"to": "a"})


@pytest.mark.parametrize("how", ["fail", "release", "lose"])
def test_rule_03_a_changed_mind_is_asked_about_however_the_attempt_ended(how: str) -> None:
    """An error, a rejected return and a worker's shutdown run the agent again as a lost lease does."""
    session = situations.running()
    session.report(session.run("refund", ARGS))
    getattr(session, how)()
    session.claim().intend("refund", OTHER)
    session.then("EffectProposed", "TicketOpened")


def test_rule_03_a_changed_mind_is_asked_about_after_an_attempt_that_was_suspended() -> None:
    grants = [Grant(tool="refund"), Grant(tool="mail", approve="approvers")]
    session = Session(one(tools=grants), REFUND, MAIL).submit().claim()
    session.report(session.run("refund", ARGS))
    session.intend("mail", {"to": "a"})
    session.resolve("approve").claim().intend("refund", OTHER)
    session.then("EffectProposed", "TicketOpened")


def test_after_an_accepted_return_nobody_is_asked() -> None:
    session = situations.running()
    session.report(session.run("refund", ARGS))
    session.ask("q").answer("q", 1)
    session.claim().run("refund", OTHER)


@pytest.mark.parametrize("forgiven", ["send-back", "retry"])
def test_rule_03_who_forgives_the_failures_does_not_forget_the_lost_attempt(forgiven: str) -> None:
    session = situations.running(max_attempts=1)
    session.report(session.run("refund", ARGS)).lose()
    session.stands("waiting-human")
    if forgiven == "retry":
        session.retry()
    else:
        session.resolve("send-back", "again")
    session.claim().intend("refund", OTHER)
    session.then("EffectProposed", "TicketOpened")


def test_rule_03_a_tool_that_was_registered_anew_with_another_identity_is_proposed() -> None:
    """The same call has another effectId then, and would run a second time."""
    session = situations.running()
    session.report(session.run("refund", ARGS)).fail()
    session.release() if session.state.claim else None
    session.register(replace(REFUND, identity=["order"]))
    session.pause().resume().claim()
    session.intend("refund", ARGS)
    session.then("EffectProposed", "TicketOpened")


def test_the_next_step_knows_nothing_of_a_changed_mind() -> None:
    session, _ = lost_after_refund()
    session.done().claim()
    session.run("refund", OTHER)


def test_rule_02_an_intent_of_a_session_that_is_ending_is_fenced() -> None:
    session = situations.ending()
    session.refuses(Fenced, session.intent("mail", {"to": "a"}), match="the session is being cancelled")


def test_a_stage_of_people_grants_nothing() -> None:
    plan = writing()
    session = Session(replace(plan, stages={**plan.stages, "tell": Stage(queue="desk")}), REFUND, MAIL)
    session.submit().claim().done()
    session.refuses(Fenced, session.intent("mail", {"to": "a"}))
