"""The verbs of people in the SDK: finding, holding, handing on, drafts, many at once, and wrong input at every edge."""

from collections.abc import Callable
from typing import Any

import pytest

from passdown.broker.access.directory import Person
from passdown.broker.inbox import MOST_AT_ONCE, Draft, Inbox, Ref, refs_of
from passdown.broker.session import Session
from passdown.contracts import events as ev
from passdown.contracts.errors import Conflict, ContractError, Denied, NotFound, PassdownError, Unavailable
from passdown.contracts.plans import People, Plan, Stage
from tests.unit.broker.rig import Rig

#: Who is next, and until when, goes by the store's time.
pytestmark = pytest.mark.usefixtures("still")

ANN, BOB = "user:ann", "user:bob"


def asking(name: str = "asks", *, priority: int = 0, **people: Any) -> Plan:
    """Return a plan of one stage that is a person's."""
    stage = Stage(queue="desk", priority=priority, people=People(**people))
    return Plan(name=name, start="ask", stages={"ask": stage})


def inbox(rig: Rig, name: str = ANN) -> Inbox:
    return rig.person(name).inbox


def open_some(rig: Rig, count: int, made: Plan | None = None) -> list[Session]:
    """Open sessions, one after the other."""
    ref = rig.broker.register(made or asking())
    opened: list[Session] = []
    for n in range(count):
        rig.clock.forward(1)
        opened.append(rig.broker.submit(ref, key=f"{ref.name}-{n}"))
    return opened


def known(rig: Rig, name: str, *groups: str, skills: tuple[str, ...] = ()) -> None:
    person = Person(name=name, roles=["human"], groups=list(groups), skills=list(skills))
    rig.broker.directory.set_person(person)


# Finding


def test_h08_looking_claims_and_changes_nothing(rig: Rig) -> None:
    (session,) = open_some(rig, 1)
    before = session.state().seq
    mine = inbox(rig)
    assert mine.show(session.id, 1).holder == ""
    assert [row.session_id for row in mine.offered()] == [session.id]
    assert [row.session_id for row in mine.waiting("desk")] == [session.id]
    assert mine.mine() == []
    assert session.state().seq == before


def test_the_next_one_is_by_priority_then_due_then_age(rig: Rig) -> None:
    (old,) = open_some(rig, 1, asking("old"))
    rig.clock.forward(1_000)
    (due,) = open_some(rig, 1, asking("due", due_seconds=60.0))
    (urgent,) = open_some(rig, 1, asking("urgent", priority=5))
    found = [inbox(rig).next() for _ in range(3)]
    assert [one and one.session_id for one in found] == [urgent.id, due.id, old.id]
    assert inbox(rig).next() is None


def test_what_four_eyes_exclude_is_passed_over_on_every_page(rig: Rig) -> None:
    ref = rig.broker.register(asking(exclude_initiator=True))
    own = rig.person(ANN)
    for n in range(120):
        own.submit(ref, key=f"own-{n}")
    rig.clock.forward(1)
    other = rig.broker.submit(ref, key="other")
    assert [row.session_id for row in inbox(rig).offered()] == [other.id]
    found = inbox(rig).next()
    assert found is not None
    assert found.session_id == other.id


def test_what_one_lacks_the_skill_or_the_group_for_is_not_offered(rig: Rig) -> None:
    (plain,) = open_some(rig, 1)
    (french,) = open_some(rig, 1, asking("french", skills=["french"]))
    (named,) = open_some(rig, 1, asking("named", candidates=[BOB]))
    known(rig, ANN, "desk")
    known(rig, BOB, "desk", skills=("french",))
    assert {row.session_id for row in inbox(rig).offered()} == {plain.id}
    assert {row.session_id for row in inbox(rig, BOB).offered()} == {plain.id, french.id, named.id}
    for session, why in ((french, "it needs the skill french"), (named, "it is for user:bob")):
        with pytest.raises(Denied, match=why):
            inbox(rig).claim(session.id, 1)


def test_whoever_is_second_gets_the_next_one(rig: Rig) -> None:
    first, second = open_some(rig, 2)
    offered = inbox(rig, BOB).offered()
    inbox(rig).claim(first.id, 1)
    assert [row.session_id for row in offered] == [first.id, second.id]
    found = inbox(rig, BOB).next()
    assert found is not None
    assert found.session_id == second.id


def test_of_a_queue_only_what_is_in_it(rig: Rig) -> None:
    (session,) = open_some(rig, 1)
    mine = inbox(rig)
    for other in ("other", "DESK", "desk ", "d\x00", "\u0434\u0435\u0441\u043a", "x" * 10_000):
        assert (mine.offered(queue=other), mine.waiting(other), mine.next(queue=other)) == ([], [], None)
    found = mine.next(queue="desk")
    assert found is not None
    assert found.session_id == session.id


def test_what_was_taken_or_withdrawn_since_the_look_is_passed_over(rig: Rig) -> None:
    taken, withdrawn, free = open_some(rig, 3)
    mine = inbox(rig)
    looked = mine.offered()
    inbox(rig, BOB).claim(taken.id, 1)
    withdrawn.cancel()
    mine._offers = lambda *_: iter(looked)  # type: ignore[method-assign]  # as one who looked just before
    found = mine.next()
    assert found is not None
    assert found.session_id == free.id
    assert mine.next() is None


def test_whoever_is_never_first_is_told_so(rig: Rig) -> None:
    open_some(rig, 20)
    mine = inbox(rig)
    looked = mine.offered()
    inbox(rig, BOB).each(refs_of(looked), lambda ref: inbox(rig, BOB).claim(ref.session_id, ref.ticket_no))
    mine._offers = lambda *_: iter(looked)  # type: ignore[method-assign]  # others are faster each time
    with pytest.raises(Conflict, match="others were faster"):
        mine.next()


# Holding


def test_a_lost_reply_to_a_claim_is_one_claim(rig: Rig) -> None:
    (session,) = open_some(rig, 1)
    rig.controller._patience_s = 5.0  # pyright: ignore[reportPrivateUsage]
    rig.fail("after", only=("commit",))
    held = inbox(rig).claim(session.id, 1)
    assert (held.holder, held.version) == (ANN, 2)


def test_only_the_holder_sees_the_lease(rig: Rig) -> None:
    (session,) = open_some(rig, 1)
    held = inbox(rig).claim(session.id, 1)
    assert held.lease
    assert inbox(rig).show(session.id, 1).lease == held.lease
    theirs = inbox(rig, BOB).show(session.id, 1)
    assert (theirs.holder, theirs.lease) == (ANN, "")


def test_h01_a_tab_left_open_decides_nothing(rig: Rig) -> None:
    (session,) = open_some(rig, 1)
    old = inbox(rig).claim(session.id, 1)
    inbox(rig, BOB).take_over(session.id, 1, "she is ill")
    with pytest.raises(Conflict) as told:
        inbox(rig).resolve(session.id, 1, "complete", {}, version=old.version, lease=old.lease)
    assert told.value.winner == BOB
    assert session.status() == "waiting-human"


def test_whoever_held_what_was_withdrawn_is_told_why(rig: Rig) -> None:
    (session,) = open_some(rig, 1)
    held = inbox(rig).claim(session.id, 1)
    session.cancel("the customer withdrew")
    with pytest.raises(Conflict) as told:
        inbox(rig).extend(session.id, 1, lease=held.lease)
    assert (told.value.winner, told.value.decided) == (
        "user:producer",
        "withdrawn: the customer withdrew",
    )


def test_a_person_gets_only_what_they_may_take(rig: Rig) -> None:
    (session,) = open_some(rig, 1, asking(skills=["french"]))
    known(rig, ANN, "desk", skills=("french",))
    known(rig, BOB, "desk")
    inbox(rig).claim(session.id, 1)
    with pytest.raises(Denied, match="it needs the skill french"):
        inbox(rig).reassign(session.id, 1, to=BOB)
    with pytest.raises(Denied, match="not known here"):
        inbox(rig).reassign(session.id, 1, to="user:stranger")
    known(rig, BOB, "desk", skills=("french",))
    given = inbox(rig).reassign(session.id, 1, to=BOB, reason="end of my shift")
    assert (given.holder, given.lease) == (BOB, "")
    assert inbox(rig, BOB).show(session.id, 1).lease


def test_what_rests_is_offered_to_nobody_until_it_wakes(rig: Rig) -> None:
    (session,) = open_some(rig, 1)
    mine = inbox(rig)
    resting = mine.snooze(session.id, 1, 60.0, "the customer calls back")
    assert resting.snoozed_until == rig.clock.now + 60_000
    assert mine.offered() == []
    assert [row.session_id for row in mine.waiting("desk")] == [session.id]
    assert mine.wake(session.id, 1).snoozed_until is None
    assert [row.session_id for row in inbox(rig, BOB).offered()] == [session.id]


def test_a_comment_sent_twice_is_one_and_says_what_was_written(rig: Rig) -> None:
    (session,) = open_some(rig, 1)
    text = "\u202e\u0434\u0435\u0441\u043a\x00 \U0001f642 zwei"
    views = [inbox(rig).comment(session.id, 1, text, comment_id="once") for _ in range(2)]
    assert [one.comments for one in views] == [1, 1]
    (said,) = [one.event for one in session.events() if isinstance(one.event, ev.TicketCommented)]
    assert said.text == text


def test_extending_is_for_whoever_holds_it_and_counts_from_now(rig: Rig) -> None:
    (session,) = open_some(rig, 1)
    inbox(rig).claim(session.id, 1, lease_s=60)
    rig.clock.forward(30_000)
    assert inbox(rig).extend(session.id, 1, lease_s=60).until == rig.clock.now + 60_000
    with pytest.raises(Conflict) as told:
        inbox(rig, BOB).extend(session.id, 1)
    assert told.value.winner == ANN
    assert [row.holder for row in inbox(rig).mine()] == [ANN]


def test_a_ticket_goes_to_another_queue_of_its_plan(rig: Rig) -> None:
    (session,) = open_some(rig, 1)
    given = inbox(rig).reassign(session.id, 1, to_queue="operators", reason="nobody here knows it")
    assert (given.queue, given.holder) == ("operators", "")
    assert inbox(rig).waiting("desk") == []


# Drafts


def test_a_draft_is_of_one_person_and_survives_what_happens_to_the_ticket(rig: Rig) -> None:
    (session,) = open_some(rig, 1)
    ann, bob = inbox(rig), inbox(rig, BOB)
    draft = Draft(resolution="complete", value={"a": 1}, note="half")
    ann.claim(session.id, 1)
    ann.keep_draft(session.id, 1, draft)
    ann.release(session.id, 1)
    bob.claim(session.id, 1)
    assert bob.draft(session.id, 1) is None
    kept = ann.draft(session.id, 1)
    assert kept is not None
    assert kept.draft == draft
    bob.release(session.id, 1)
    ann.resolve(session.id, 1, "complete", {"a": 2})
    assert ann.draft(session.id, 1) is None, "it was sent"


def test_h38_of_two_devices_one_is_told(rig: Rig) -> None:
    (session,) = open_some(rig, 1)
    desk, phone = inbox(rig), inbox(rig)
    desk.keep_draft(session.id, 1, Draft(note="desk"), expected=0)
    with pytest.raises(Conflict):
        phone.keep_draft(session.id, 1, Draft(note="phone"), expected=0)
    kept = phone.draft(session.id, 1)
    assert kept is not None
    phone.keep_draft(session.id, 1, Draft(note="phone"), expected=kept.version)
    assert kept.draft.note == "desk"


# Many at once


def test_many_at_once_each_by_itself(rig: Rig) -> None:
    sessions = open_some(rig, 3)
    ann = inbox(rig)
    inbox(rig, BOB).claim(sessions[1].id, 1)
    refs = [*(Ref(one.id, 1) for one in sessions), Ref("s0-no-such-session", 1)]
    found = ann.each(refs, lambda ref: ann.resolve(ref.session_id, ref.ticket_no, "complete", {}))
    assert [one.ref for one in found] == refs
    assert [type(one.error) for one in found] == [type(None), Conflict, type(None), NotFound]
    assert [one.status() for one in sessions] == ["done", "waiting-human", "done"]
    with pytest.raises(ContractError, match=f"at most {MOST_AT_ONCE}"):
        ann.each([refs[0]] * (MOST_AT_ONCE + 1), lambda _: None)


# Wrong input

WRONG: list[Callable[[Inbox, str], Any]] = [
    lambda one, id_: one.show(id_, 0),
    lambda one, id_: one.show(id_, 99),
    lambda one, id_: one.show("nonsense", 1),
    lambda one, id_: one.claim(id_, 1, version=7),
    lambda one, id_: one.claim(id_, 1, version="1"),  # type: ignore[arg-type]
    lambda one, id_: one.claim(id_, 1, lease_s=0),
    lambda one, id_: one.claim(id_, 1, lease_s=float("nan")),
    lambda one, id_: one.claim(id_, 1, lease_s=float("inf")),
    lambda one, id_: one.claim(id_, 1, lease_s=86_401),
    lambda one, id_: one.take_over(id_, 1, "x" * 8_193),
    lambda one, id_: one.extend(id_, 1),
    lambda one, id_: one.extend(id_, 1, lease="\x00"),
    lambda one, id_: one.release(id_, 1, lease="no such"),
    lambda one, id_: one.reassign(id_, 1),
    lambda one, id_: one.reassign(id_, 1, to=BOB, to_queue="desk"),
    lambda one, id_: one.reassign(id_, 1, to="group:desk"),
    lambda one, id_: one.reassign(id_, 1, to="nobody in particular"),
    lambda one, id_: one.reassign(id_, 1, to_queue="nowhere"),
    lambda one, id_: one.snooze(id_, 1, -1),
    lambda one, id_: one.snooze(id_, 1, 31 * 86_400),
    lambda one, id_: one.comment(id_, 1, ""),
    lambda one, id_: one.comment(id_, 1, " \t"),
    lambda one, id_: one.comment(id_, 1, "x" * 8_193),
    lambda one, id_: one.resolve(id_, 1, "explode"),  # type: ignore[arg-type]
    lambda one, id_: one.resolve(id_, 1, "approve"),
    lambda one, id_: one.resolve(id_, 1, "complete", "not an object"),
    lambda one, id_: one.resolve(id_, 1, "complete", {"x": float("nan")}),
    lambda one, id_: one.resolve(id_, 1, "complete", {"x": "y" * 70_000}),
    lambda one, id_: one.resolve(id_, 1, "complete", {}, lease="\ud800"),
    lambda one, id_: one.resolve(id_, 1, "complete", {}, version=-1),
    lambda one, id_: one.keep_draft(id_, 1, Draft(note="x" * 70_000)),
    lambda one, id_: one.keep_draft(id_, 1, Draft(value=float("nan"))),
    lambda one, id_: one.keep_draft(id_, 1, {"note": 5}),  # type: ignore[arg-type]
    lambda one, id_: one.show(id_, 2**70),
    lambda one, id_: one.show("s0-" + "a" * 100_000, 1),
    lambda one, id_: one.take_over(id_, 1, "\ud800"),
    lambda one, id_: one.snooze(id_, 1, float("nan")),
    lambda one, id_: one.comment(id_, 1, "\ud800"),
    lambda one, id_: one.comment(id_, 1, "once", comment_id="x" * 65),
    lambda one, id_: one.reassign(id_, 1, to="user:" + "a" * 10_000),
    lambda one, id_: one.reassign(id_, 1, to_queue="a\x00"),
    lambda one, id_: one.resolve(id_, 1, "complete", {"a": "\ud800"}),
    lambda one, id_: one.resolve(id_, 1, "complete", {"a": 2**70}),
    lambda one, id_: one.keep_draft(id_, 1, Draft(note="\ud800")),
    lambda one, id_: one.keep_draft(id_, 1, Draft(), expected=-1),
    lambda one, _: one.show("\ud800", 1),
    lambda one, _: one.claim("\ud800", 1),
    lambda one, _: one.draft("\ud800", 1),
    lambda one, id_: one.draft(id_, 2**70),
    lambda one, _: one.forget_draft("\ud800", 1),
    lambda one, id_: one.forget_draft(id_, 2**70),
    lambda one, id_: one.reassign(id_, 1, to="user:\ud800"),
    lambda one, _: one.waiting("\ud800"),
    lambda one, _: one.offered(queue="\ud800"),
    lambda one, _: one.next(queue="\ud800"),
    lambda one, _: one.offered(limit=0),
    lambda one, _: one.offered(limit=1_001),
    lambda one, _: one.waiting("desk", limit=-1),
    lambda one, _: one.mine(limit=0),
]

#: Values of every kind; each edge refuses those that are not of its own.
ODD: list[Any] = [
    None,
    5,
    1.5,
    True,
    b"s",
    "s",
    "\ud800",
    2**70,
    float("nan"),
    float("inf"),
    object(),
    ["s"],
    {},
]
TEXT: tuple[Any, ...] = ("s",)
NUMBER: tuple[Any, ...] = (5,)
SECONDS: tuple[Any, ...] = (5, 1.5)
EDGES: list[tuple[tuple[Any, ...], Callable[[Inbox, str, Any], Any]]] = [
    *(
        (TEXT, lambda one, _, odd, name=name: getattr(one, name)(odd, 1))
        for name in ("show", "claim", "extend", "release", "wake", "draft", "forget_draft", "reassign")
    ),
    *(
        (NUMBER, lambda one, id_, odd, name=name: getattr(one, name)(id_, odd))
        for name in ("show", "claim", "extend", "release", "wake", "draft", "forget_draft", "reassign")
    ),
    (TEXT, lambda one, _, odd: one.resolve(odd, 1, "complete", {})),
    (NUMBER, lambda one, id_, odd: one.resolve(id_, odd, "complete", {})),
    (TEXT, lambda one, _, odd: one.keep_draft(odd, 1, Draft())),
    (NUMBER, lambda one, id_, odd: one.keep_draft(id_, odd, Draft())),
    (TEXT, lambda one, _, odd: one.comment(odd, 1, "x")),
    (TEXT, lambda one, _, odd: one.snooze(odd, 1, 5)),
    ((*TEXT, None), lambda one, _, odd: one.next(queue=odd)),
    ((*TEXT, None), lambda one, _, odd: one.offered(queue=odd)),
    ((*TEXT, None), lambda one, _, odd: one.waiting(odd)),
    (NUMBER, lambda one, _, odd: one.offered(limit=odd)),
    (NUMBER, lambda one, _, odd: one.waiting(limit=odd)),
    (NUMBER, lambda one, _, odd: one.mine(limit=odd)),
    ((*SECONDS, None), lambda one, _, odd: one.next(lease_s=odd)),
    ((*SECONDS, None), lambda one, id_, odd: one.claim(id_, 1, lease_s=odd)),
    ((*NUMBER, None), lambda one, id_, odd: one.claim(id_, 1, version=odd)),
    (TEXT, lambda one, id_, odd: one.take_over(id_, 1, odd)),
    (TEXT, lambda one, id_, odd: one.extend(id_, 1, lease=odd)),
    (TEXT, lambda one, id_, odd: one.release(id_, 1, odd)),
    (TEXT, lambda one, id_, odd: one.release(id_, 1, lease=odd)),
    (TEXT, lambda one, id_, odd: one.reassign(id_, 1, to=odd)),
    (TEXT, lambda one, id_, odd: one.reassign(id_, 1, to_queue=odd)),
    (SECONDS, lambda one, id_, odd: one.snooze(id_, 1, odd)),
    (TEXT, lambda one, id_, odd: one.comment(id_, 1, odd)),
    (TEXT, lambda one, id_, odd: one.comment(id_, 1, "x", comment_id=odd)),
    (TEXT, lambda one, id_, odd: one.resolve(id_, 1, odd)),
    (TEXT, lambda one, id_, odd: one.resolve(id_, 1, "complete", {}, note=odd)),
    ((*TEXT, None), lambda one, id_, odd: one.resolve(id_, 1, "complete", {}, lease=odd)),
    ((*NUMBER, None), lambda one, id_, odd: one.resolve(id_, 1, "complete", {}, version=odd)),
    ((*NUMBER, None), lambda one, id_, odd: one.resolve(id_, 1, "complete", {}, version=1, draft=odd)),
    (({},), lambda one, id_, odd: one.keep_draft(id_, 1, odd)),
    (TEXT, lambda one, id_, odd: one.keep_draft(id_, 1, Draft(note=odd))),
    ((*NUMBER, None), lambda one, id_, odd: one.keep_draft(id_, 1, Draft(), expected=odd)),
]


def test_rule_11_what_is_of_another_kind_is_refused_at_every_edge(rig: Rig) -> None:
    (session,) = open_some(rig, 1)
    before = session.state().seq
    for number, (fits, call) in enumerate(EDGES):
        for odd in ODD:
            if any(type(one) is type(odd) and one == odd for one in fits):
                continue
            with pytest.raises(ContractError):
                pytest.fail(f"edge {number} took {odd!r}: {call(inbox(rig), session.id, odd)}")
    assert session.state().seq == before
    with pytest.raises(ContractError, match="expected a list"):
        inbox(rig).each(5, lambda _: None)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", range(len(WRONG)))
def test_rule_11_what_does_not_fit_is_refused_and_changes_nothing(rig: Rig, wrong: int) -> None:
    (session,) = open_some(rig, 1)
    before = session.state().seq
    with pytest.raises(PassdownError) as told:
        WRONG[wrong](inbox(rig), session.id)
    assert not isinstance(told.value, Unavailable)
    assert session.state().seq == before
    # What would have been a decision, and came too late, is kept; nothing else is.
    assert isinstance(told.value, Conflict) or inbox(rig).draft(session.id, 1) is None
