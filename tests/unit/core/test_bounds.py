"""Rule 12: the state of a session is bounded, whatever the session goes through."""

from typing import Any

from passdown.broker.core import bounds
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import KIB, RETURN_BUDGET, STATE_BUDGET, encode
from passdown.contracts.errors import BudgetExceeded
from passdown.contracts.plans import FAIL, Grant, Next, Plan
from tests.unit.core import situations
from tests.unit.core.plans import MAIL, READ, one, stage
from tests.unit.core.spec import BOB, Session


def size(session: Session) -> int:
    return len(encode(session.state))


def test_the_newest_stay_up_to_a_number_and_a_size() -> None:
    assert bounds.newest([1, 2, 3], 2, 100) == [2, 3]
    assert bounds.newest(["a", "bb", "c"], 9, 7) == ["bb", "c"]
    assert bounds.newest(["a", "x" * 100, "c"], 9, 50) == ["c"], "nothing older than what did not fit"
    assert bounds.newest([], 2, 100) == []


def test_rule_12_the_shares_of_the_facts_leave_room_for_what_is_asked() -> None:
    assert bounds.ASKED_LIMIT > 100 * KIB


def loop(**fields: Any) -> Session:
    plan = Plan(
        name="loop",
        start="work",
        max_steps=10**6,
        stages={"work": stage(**{"next": Next(to="work"), "max_entries": 10**6, **fields})},
    )
    return Session(plan, MAIL, READ).submit()


def test_rule_12_a_session_of_many_steps_does_not_grow() -> None:
    session = loop(tools=[Grant(tool="orders.read")])
    sizes: list[int] = []
    for n in range(150):
        session.claim().note(cmd.ToolNote(tool="orders.read", args={"id": n}, kept=True, result="r" * KIB))
        session.checkpoint({"page": "p" * KIB}).fail("x" * 500).claim().ask("why").answer("why", "a" * KIB)
        session.claim().done({"last": n})
        sizes.append(size(session))
    assert max(sizes[20:]) < sizes[20] + 100


def test_rule_12_a_step_of_many_rounds_of_questions_does_not_grow() -> None:
    session = loop()
    sizes: list[int] = []
    for n in range(120):
        session.claim().ask(f"q{n}", "again").answer(f"q{n}", "a" * 500).answer("again", n)
        sizes.append(size(session))
    assert max(sizes) < 40 * KIB
    assert max(sizes[60:]) < max(sizes[30:60]) + 500
    assert session.state.left_out > 100


def test_rule_12_a_step_of_many_failures_does_not_grow() -> None:
    session = loop(max_attempts=10**6)
    for _ in range(40):
        session.claim().fail("\0" * 2_000)
    assert size(session) < 20 * KIB
    assert session.state.failures == 40


def test_rule_12_a_claim_of_many_reads_does_not_grow() -> None:
    session = loop(tools=[Grant(tool="orders.read")]).claim()
    for n in range(100):
        session.note(cmd.ToolNote(tool="orders.read", args={"id": n}, kept=True, result="r" * (3 * KIB)))
    assert size(session) < bounds.READS_BYTES + 4 * KIB
    assert session.state.left_out + len(session.state.reads) == 100


def test_rule_12_results_and_arguments_of_old_effects_leave_the_state() -> None:
    session = loop(tools=[Grant(tool="mail")]).claim()
    for n in range(60):
        session.report(session.run("mail", {"to": str(n), "text": "x" * 1_000}), result="r" * 1_000)
    assert size(session) < 60 * 600 + bounds.LEDGER_BYTES
    oldest, newest = session.state.effects[0], session.state.effects[-1]
    assert (oldest.args, oldest.result, oldest.result_out) == (None, None, True)
    assert (newest.args, newest.result) == ({"to": "59", "text": "x" * 1_000}, "r" * 1_000)


def test_rule_12_the_error_of_an_effect_stands_whole_in_its_event_and_cut_in_the_state() -> None:
    session = loop(tools=[Grant(tool="mail")]).claim()
    effect = session.run("mail", {"to": "a"})
    session.report(effect, "failed", error="e" * 50_000)
    (event,) = session.last
    assert isinstance(event, ev.EffectFailed)
    assert len(event.error) > 10_000
    assert 900 < len(session.effect(effect).error) < 1_100
    late = session.run("mail", {"to": "b"})
    session.lose().report(late, "failed", error="e" * 50_000)
    assert size(session) < 8 * KIB


def test_rule_12_errors_of_old_effects_are_cut() -> None:
    session = loop(tools=[Grant(tool="mail")]).claim()
    for n in range(60):
        session.report(session.run("mail", {"to": str(n)}), "failed", error="e" * 2_000)
    assert size(session) < 60 * 700 + bounds.LEDGER_BYTES


def test_rule_12_a_ledger_that_fills_the_state_takes_no_new_effect_and_loses_none() -> None:
    session = loop(tools=[Grant(tool="mail")]).claim()
    n = 0
    while True:
        body = session.intent("mail", {"to": str(n)})
        try:
            session.decide(body)
        except BudgetExceeded:
            break
        session.do(body)
        session.report(body.effect_id, result="r" * 4_000)
        n += 1
    assert n > 150
    assert size(session) <= bounds.ASKED_LIMIT + bounds.LEDGER_BYTES
    session.refuses(BudgetExceeded, body, match="session state with this effect")
    assert all(row.status == "done" for row in session.state.effects)
    session.done({"x": "y" * (60 * KIB)})
    assert size(session) <= STATE_BUDGET


def test_rule_12_an_effect_that_is_open_keeps_its_arguments_whatever_their_size() -> None:
    session = situations.running()
    session.run("mail", {"to": "a", "text": "x" * (20 * KIB)})
    assert session.lose().pack.effects[0].args["text"] == "x" * (20 * KIB)
    session.claim().settle(e1="found")
    assert session.state.effects[0].args is None
    assert session.pack.effects[0].omitted


def test_rule_12_a_session_that_is_over_keeps_little() -> None:
    session = loop(tools=[Grant(tool="orders.read")]).claim()
    session.note(cmd.ToolNote(tool="orders.read", args={"id": 1}, kept=True, result="r" * 4_000))
    session.checkpoint("s" * (10 * KIB)).ask("why").answer("why", "a" * (9 * KIB)).cancel()
    assert size(session) < 2 * KIB


def test_a_session_that_failed_keeps_what_its_next_attempt_would_need() -> None:
    session = Session(one(max_attempts=1, on_failed=FAIL, recovery="continue")).submit().claim()
    session.checkpoint({"half": 1}).fail("boom").stands("failed")
    assert session.retry().pack.snapshot
    assert session.pack.feedback[0].text == "boom"


def worst() -> Session:
    """A session that holds as much as every rule lets it hold."""
    session = loop(tools=[Grant(tool="mail"), Grant(tool="orders.read")]).claim()
    for n in range(40):
        session.report(session.run("mail", {"to": str(n), "t": "x" * 900}), result="r" * 3_000)
    for n in range(9):
        session.note(cmd.ToolNote(tool="orders.read", args={"id": n}, kept=True, result="r" * 4_000))
    for n in range(3):
        if n:
            session.claim()
        session.ask(*(f"q{n}{m}" for m in range(4)))
        for m in range(4):
            session.answer(f"q{n}{m}", "a" * 900)
    session.claim().checkpoint("s" * (15 * KIB))
    return session


def test_rule_12_a_return_always_fits_beside_what_is_there() -> None:
    session = worst()
    session.run("mail", {"to": "open"})
    session.done({"x": "y" * (60 * KIB)})
    assert session.state.kept
    assert size(session) <= STATE_BUDGET


def test_rule_12_a_small_answer_is_taken_however_full_the_state_is() -> None:
    """Else a question might wait for ever; a large one is refused, with the advice to pass a resource."""
    session = Session(one()).submit().claim().ask(*(f"q{n}" for n in range(5)))
    session.answer("q0", "a" * (60 * KIB)).answer("q1", "a" * (60 * KIB)).answer("q2", "a" * (60 * KIB))
    large = cmd.Answer(step=1, attempt=1, id="q3", value="a" * (60 * KIB))
    session.refuses(BudgetExceeded, large, BOB, match="session state with this answer")
    session.answer("q3", "a" * (STATE_BUDGET - RETURN_BUDGET - size(session) - 100))
    session.answer("q4", "a" * 1_000).stands("waiting-human")
    assert size(session) > STATE_BUDGET - RETURN_BUDGET
    assert session.state.tickets[0].kind == "budget"
