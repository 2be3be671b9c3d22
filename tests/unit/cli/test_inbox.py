"""`inbox`: people find, hold, hand on and decide tickets; several at once, and for scripts."""

import json
from typing import Any

import click
import pytest

from passdown.broker.cli.inboxing import for_each
from passdown.broker.inbox import Draft, Ref, TicketView
from passdown.contracts.errors import Unavailable
from passdown.contracts.plans import Grant, Level, Next, Plan, Stage
from tests.unit.cli.conftest import Cli, Said
from tests.unit.cli.desk import Desk, broker_on
from tests.unit.cli.terminal import on_terminal

ANN, BOB = ("--as", "user:ann"), ("--as", "user:bob")


@pytest.fixture
def stuck(desk: Desk) -> str:
    """A ticket of an agent that handed over to people."""
    session = desk.submit("stuck", plan="help", do="escalate")
    desk.work()
    return f"{session.id}/1"


@pytest.fixture
def pay(desk: Desk) -> str:
    """A ticket that waits for an approval."""
    session = desk.submit("pay", orderId="1")
    desk.work()
    return f"{session.id}/1"


def _json(said: Said) -> Any:
    assert (said.code, said.err) == (0, "")
    return json.loads(said.out)


def _lines(said: Said) -> list[Any]:
    return [json.loads(line) for line in said.out.splitlines()]


def test_the_list_holds_what_one_may_claim_the_next_one_first(
    at_desk: Cli, desk: Desk, stuck: str, pay: str
) -> None:
    said = at_desk("inbox", "list", *ANN)
    assert said.code == 0
    head, *rows = said.out.splitlines()
    assert head.split() == ["ticket", "pri", "due", "age", "kind", "queue", "held", "by", "about"]
    assert [row.split()[0] for row in rows] == [stuck, pay]
    assert "Task of pay: refunds.create: a person must see it first" in rows[1]
    mine = at_desk("inbox", "list")
    assert pay not in mine.out, "nobody is offered what they initiated"
    assert at_desk("inbox", "list", "--queue", "refund-approvers", *ANN).out.count("/1") == 1


def test_what_agents_wrote_cannot_steer_a_terminal(at_desk: Cli, desk: Desk) -> None:
    desk.submit("failing \x1b[2J", plan="help", do="fail")
    desk.work()
    said = at_desk("inbox", "list")
    assert "\x1b" not in said.out
    assert "a \\x1b[31mred\\x1b[0m fault" in said.out
    assert "\x1b" not in at_desk("inbox", "next").out


def test_held_and_snoozed_tickets_are_listed_with_all_and_mine(at_desk: Cli, stuck: str, pay: str) -> None:
    at_desk("inbox", "claim", stuck, *ANN)
    at_desk("inbox", "snooze", pay, "2h", *ANN)
    assert at_desk("inbox", "list", *BOB).out == ""
    every = at_desk("inbox", "list", "--all", *BOB).out
    assert "user:ann for 14m" in every
    assert "snoozed for 1h59m" in every
    assert "you for 14m" in at_desk("inbox", "list", "--mine", *ANN).out
    assert at_desk("inbox", "list", "--mine", *BOB).out == ""
    found = _json(at_desk("inbox", "list", "--all", "--json"))["tickets"]
    assert [(one["heldBy"], one["snoozed"]) for one in found] == [("user:ann", False), ("", True)]
    assert set(found[0]) >= {
        "ticket",
        "priority",
        "dueAt",
        "overdue",
        "openedAt",
        "kind",
        "queue",
        "task",
        "why",
    }


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_the_list_fits_its_terminal(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, stuck: str, pay: str, columns: int
) -> None:
    monkeypatch.setenv("PASSDOWN_STORE", desk.url)
    for command in (["list"], ["list", "--all"], ["show", pay], ["show", stuck]):
        screen = on_terminal(monkeypatch, columns, "inbox", *command, *ANN)
        assert screen.code == 0
        wide = [line for line in screen.lines if len(line) > columns and "passdown inbox " not in line]
        assert wide == [], command


def test_next_claims_and_shows_the_brief_and_what_to_type(at_desk: Cli, desk: Desk, pay: str) -> None:
    said = at_desk("inbox", "next", "--queue", "refund-approvers", "--lease", "30m", *ANN)
    assert said.code == 0
    assert said.out.startswith(f"# Brief of {pay}\n")
    assert "held by     you, until " in said.out
    assert f"  passdown inbox resolve {pay} approve --version 2 --as user:ann\n" in said.out
    none = at_desk("inbox", "next", "--queue", "refund-approvers", *ANN)
    assert none.code == 3
    assert "there is no ticket on offer in queue 'refund-approvers'" in none.err
    assert at_desk("inbox", "next", *BOB).code == 3


def test_show_claims_nothing_and_is_a_structure_for_scripts(at_desk: Cli, desk: Desk, pay: str) -> None:
    before = desk.fingerprint()
    found = _json(at_desk("inbox", "show", pay, "--json", *ANN))
    assert desk.fingerprint() == before
    assert found["brief"]["spec"] == "passdown.brief/1"
    assert (found["ticket"]["holder"], found["ticket"]["lease"], found["draft"]) == ("", "", None)
    assert f"passdown inbox claim {pay} --as user:ann" in found["commands"]
    mine = at_desk("inbox", "show", pay)
    assert "not yours   you may not take it: whoever initiated or proposed" in mine.out


def test_who_holds_a_ticket_may_extend_release_and_hand_it_on(at_desk: Cli, desk: Desk, stuck: str) -> None:
    held = at_desk("inbox", "claim", stuck, "--lease", "1m", *ANN)
    assert held.out.startswith(f"{stuck}  you hold it until ")
    assert at_desk("inbox", "extend", stuck, "--lease", "1h", *ANN).code == 0
    lost = at_desk("inbox", "claim", stuck, *BOB)
    assert (lost.code, lost.out) == (4, "")
    assert "is held; user:ann was first" in lost.err
    assert at_desk("inbox", "take-over", stuck, *BOB).code == 2
    taken = at_desk("inbox", "take-over", stuck, "--reason", "she is at lunch", *BOB)
    assert "you hold it until" in taken.out
    assert at_desk("inbox", "release", stuck, *ANN).code == 4
    given = at_desk("inbox", "reassign", stuck, "--to", "user:carl", "--reason", "he knows", *BOB)
    assert "user:carl holds it until" in given.out
    assert "released to operators" in at_desk("inbox", "release", stuck, "--as", "user:carl").out


def test_a_ticket_goes_to_another_queue_of_the_plan(at_desk: Cli, desk: Desk) -> None:
    path = [Level(queue="tier1"), Level(queue="tier2", after_seconds=3600)]
    desk.broker.register(
        Plan(name="tiers", start="only", stages={"only": Stage(role="helper", escalation=path)})
    )
    desk.submit("tiers", plan="tiers", do="escalate")
    desk.work()
    said = at_desk("inbox", "reassign", "tiers/1", "--queue", "tier2")
    assert said.out.endswith("handed to queue tier2\n")
    wrong = at_desk("inbox", "reassign", "tiers/1", "--queue", "nope")
    assert (wrong.code, "the plan has alerts, operators, tier1, tier2" in wrong.err) == (5, True)


def test_rule_10_people_see_and_take_what_is_theirs_alone(at_desk: Cli, stuck: str, pay: str) -> None:
    words = ("principal", "set", "user:ann", "--role", "human", "--group", "refund-approvers")
    assert at_desk(*words).code == 0
    for more in ([], ["--all"]):
        found = _json(at_desk("inbox", "list", *more, "--json", *ANN))["tickets"]
        assert [one["ticket"] for one in found] == [pay]
    for verb in (["show"], ["claim"], ["resolve", "cancel"], ["comment", "x"], ["snooze", "1h"]):
        said = at_desk("inbox", verb[0], stuck, *verb[1:], *ANN)
        assert (said.code, said.out) == (5, ""), verb
        assert "queue operators is served by the group of its name" in said.err
    held = at_desk("inbox", "next", *ANN)
    assert held.out.startswith(f"# Brief of {pay}\n")


def test_a_snoozed_ticket_wakes(at_desk: Cli, stuck: str) -> None:
    assert "snoozed until" in at_desk("inbox", "snooze", stuck, "2h", "--reason", "lunch").out
    assert at_desk("inbox", "next", *ANN).code == 3
    assert "on offer in operators" in at_desk("inbox", "wake", stuck).out
    assert at_desk("inbox", "next", *ANN).code == 0


def test_comments_stand_in_the_brief_cleaned(at_desk: Cli, stuck: str) -> None:
    assert at_desk("inbox", "comment", stuck, "call \x1b[31mthem", *ANN).out.endswith("comment 1 is kept\n")
    assert at_desk("inbox", "comment", stuck, "-", *BOB, stdin="schön\n".encode()).code == 0
    shown = at_desk("inbox", "show", stuck).out
    assert "\x1b" not in shown
    assert "schön" in shown
    bad = at_desk("inbox", "comment", stuck, "-", stdin=b"\xff")
    assert (bad.code, "not UTF-8" in bad.err) == (2, True)


def test_a_draft_is_ones_own(at_desk: Cli, desk: Desk, stuck: str) -> None:
    assert at_desk("inbox", "draft", stuck, *ANN).code == 3
    session, _, number = stuck.rpartition("/")
    with broker_on(desk.url, "user:ann") as ann:
        ann.inbox.keep_draft(session, int(number), Draft(resolution="send-back", value="x\x1b[2J", note="n"))
    shown = at_desk("inbox", "draft", stuck, *ANN)
    assert "decision    send-back" in shown.out
    assert "\x1b" not in shown.out
    assert at_desk("inbox", "draft", stuck, *BOB).code == 3
    assert _json(at_desk("inbox", "draft", stuck, "--json", *ANN))["value"] == "x\x1b[2J"
    assert "is forgotten" in at_desk("inbox", "draft", stuck, "--forget", *ANN).out
    assert at_desk("inbox", "draft", stuck, *ANN).code == 3


def test_a_ticket_is_decided_under_its_lease(at_desk: Cli, stuck: str) -> None:
    view = _json(at_desk("inbox", "claim", stuck, "--json", *ANN))["view"]
    lease = ("--lease", view["lease"], "--version", view["version"])
    wrong = at_desk("inbox", "resolve", stuck, "send-back", "better", "--lease", "x", "--version", 2, *ANN)
    assert wrong.code == 4
    said = _json(at_desk("inbox", "resolve", stuck, "send-back", "better", *lease, "--json", *ANN))
    assert said == {"ticket": stuck, "done": True, "view": None, "status": "queued", "error": None}
    late = at_desk("inbox", "resolve", stuck, "cancel", *BOB)
    assert (late.code, "user:ann was first (send-back)" in late.err) == (4, True)


def test_of_two_approvals_the_first_says_that_one_is_missing(at_desk: Cli, desk: Desk) -> None:
    grant = Grant(tool="mail.send", approve="leads", approvals=2)
    desk.broker.register(
        Plan(
            name="two",
            start="only",
            stages={"only": Stage(role="helper", tools=[grant], next=Next(to="end"))},
        )
    )
    desk.submit("two", plan="two", do="mails", count=1)
    desk.work()
    yes = ("inbox", "resolve", "two/1", "approve", "--version")
    first = at_desk(*yes, "1", *ANN)
    assert "approve; approvals 1 of 2; the session is waiting-human" in first.out
    again = at_desk(*yes, "2", *ANN)
    assert (again.code, "does not approve it again" in again.err) == (5, True)
    assert "approve; the session is queued" in at_desk(*yes, "2", *BOB).out


def test_rule_08_resolve_is_the_same_by_both_names(at_desk: Cli, desk: Desk) -> None:
    for key, words in (("a", ["resolve"]), ("b", ["inbox", "resolve"])):
        session = desk.submit(key, plan="help", do="escalate")
        desk.work()
        assert at_desk(*words, f"{key}/1", "send-back", "look again", *ANN).code == 0
        assert "look again" in b"".join(session.raw_events()).decode()


def test_many_tickets_each_stand_or_fall_alone(at_desk: Cli, desk: Desk, stuck: str, pay: str) -> None:
    said = at_desk("inbox", "claim", stuck, "gone/1", pay)
    assert said.code == 5
    ok, gone, mine = said.out.splitlines()
    assert ok.startswith(f"{stuck}  you hold it")
    assert gone.startswith("gone/1  not-found: there is no ticket 'gone/1'")
    assert mine.startswith(f"{pay}  denied: user:producer may not claim")
    names = f"{stuck}\n\n{pay}\nbad\n".encode()
    by_line = at_desk("inbox", "release", "-", "--json", stdin=names)
    assert by_line.code == 4
    assert [(one["ticket"], one["done"]) for one in _lines(by_line)] == [
        (stuck, True),
        (pay, False),
        ("bad", False),
    ]
    assert [one["error"] and one["error"]["code"] for one in _lines(by_line)] == [
        None,
        "conflict",
        "contract",
    ]
    done = at_desk("inbox", "resolve", stuck, "nope/7", "cancel", "--json", *ANN)
    assert (done.code, [one["status"] for one in _lines(done)]) == (3, ["cancelled", None])
    assert at_desk("inbox", "snooze", pay, pay, "1h", *ANN).out.count("snoozed until") == 2


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["list", "--mine", "--all"], 2, "--mine goes without"),
        (["list", "--limit", "0"], 2, "0 is not in the range"),
        (["show", "nope"], 2, "expected SESSION/NUMBER, got 'nope'"),
        (["show", "nope/1"], 3, "there is no session 'nope'"),
        (["show", "{t}9"], 3, "there is no ticket"),
        (["claim"], 2, "missing argument 'TICKET...'"),
        (["claim", "{t}", "--lease", "30"], 2, "is no duration"),
        (["claim", "{t}", "--lease", "2d"], 2, "at most 86400 seconds"),
        (["claim", "{t}", "--lease", "0s"], 2, "expected more than 0"),
        (["snooze", "{t}"], 2, "say for how long, such as 2h"),
        (["snooze", "{t}", "soon"], 2, "is no duration"),
        (["snooze", "{t}", "40d"], 2, "at most 2592000 seconds"),
        (["take-over", "{t}", "--reason", ""], 0, ""),
        (["reassign", "{t}"], 2, "say to whom"),
        (["reassign", "{t}", "--to", "user:a", "--queue", "q"], 2, "say to whom"),
        (["reassign", "{t}", "--to", "ann"], 2, "expected a person, such as user:ann"),
        (["comment", "{t}", "  "], 2, "it says nothing"),
        (["comment", "{t}", "x" * 9000], 2, "8192"),
        (["resolve", "{t}"], 2, "say the RESOLUTION: one of answer, approve"),
        (["resolve", "approve"], 2, "name a TICKET"),
        (["resolve", "{t}", "aprove"], 2, "'aprove' is neither a TICKET nor a RESOLUTION"),
        (["resolve", "{t}", "cancel", "x"], 2, "cancel takes no VALUE"),
        (["resolve", "{t}", "redirect"], 2, "redirect needs a VALUE: a stage"),
        (["resolve", "{t}", "redirect", "a", "b"], 2, "there is one VALUE"),
        (["resolve", "{t}", "redirect", "nowhere"], 5, "the plan allows only"),
        (["resolve", "{t}", "approve"], 5, "it allows complete, send-back, redirect, cancel"),
        (["resolve", "{t}", "complete"], 2, "complete needs a VALUE"),
        (["resolve", "{t}", "complete", "{}", "--version", "7"], 4, "is at version 1, not 7"),
        (["resolve", "{t}", "{t}", "cancel", "--version", "1"], 2, "go with one ticket"),
        (["resolve", "-", "complete", "-"], 2, "not both"),
        (["resolve", "{t}", "cancel", "--branch", "a"], 2, "--branch goes with send-back"),
        (["nope"], 2, "no such command 'nope'"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(
    at_desk: Cli, desk: Desk, stuck: str, args: list[str], code: int, said: str
) -> None:
    before = desk.fingerprint()
    found = at_desk("inbox", *(arg.replace("{t}", stuck) for arg in args))
    assert found.code == code
    assert said in found.err
    if code:
        assert [line.startswith("passdown: ") for line in found.err.splitlines()].count(True) == 1
        assert desk.fingerprint() == before


def test_a_store_that_is_not_there_or_away_has_its_exit_code(cli: Cli) -> None:
    missing = cli("inbox", "list", "--store", "sqlite:///nowhere.db")
    assert (missing.code, "there is no store" in missing.err) == (3, True)
    away = cli("inbox", "list", "--store", "redis://127.0.0.1:1/0", "--set", "store_patience=100ms")
    assert away.code == 6


def test_where_the_store_goes_away_the_rest_is_not_tried(
    desk: Desk, capsys: pytest.CaptureFixture[str], stuck: str, pay: str
) -> None:
    tried: list[Ref] = []

    def act(ref: Ref) -> TicketView:
        tried.append(ref)
        raise Unavailable("the store", "it is away")

    def told(ref: Ref, view: TicketView | None) -> str:
        return "claimed"

    ctx = click.Context(click.Command("claim"))
    with pytest.raises(click.exceptions.Exit) as ended:
        for_each(ctx, desk.broker, [stuck, pay], act, told, as_json=False)
    assert (ended.value.exit_code, len(tried)) == (6, 1)
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines() if line.startswith("s0-")] == [
        [stuck, "unavailable:"],
        [pay, "unavailable:"],
    ]


def test_more_than_a_thousand_tickets_at_once_are_refused_whole(at_desk: Cli, desk: Desk, stuck: str) -> None:
    before = desk.fingerprint()
    said = at_desk("inbox", "claim", "-", stdin=f"{stuck}\n".encode() * 1001)
    assert (said.code, "at most 1000 at once, got 1001" in said.err) == (2, True)
    assert desk.fingerprint() == before


def test_nothing_is_asked_where_nobody_can_answer(at_desk: Cli, stuck: str) -> None:
    said = at_desk("inbox", "resolve", stuck, stdin=b"cancel\n")
    assert (said.code, said.out) == (2, "")
