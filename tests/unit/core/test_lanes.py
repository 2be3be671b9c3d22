"""Lanes: who may take what, and in which order it is offered (DESIGN §9)."""

from typing import Any

import pytest
from msgspec.structs import replace

from passdown.broker.core.given import Who
from passdown.broker.core.lanes import Lane, lane_of, needs_of, order_of, read_lane
from passdown.broker.core.parts import Holder, Ticket
from passdown.contracts.ticket_events import Needs
from tests.unit.core.desk import who
from tests.unit.core.spec import ANN, BOB


def ticket(**fields: Any) -> Ticket:
    known: dict[str, Any] = {"ticket_no": 1, "kind": "failure", "queue": "desk", "why": "w", "actions": []}
    every: dict[str, Any] = {**known, "opened_at": 1_000, **fields}
    return Ticket(**every)


NAMED = Lane(queue="desk", candidates=[BOB, "group:legal"])
SKILLED = Lane(queue="desk", skills=["polish", "tax"])


@pytest.mark.parametrize(
    ("lane", "known", "serves"),
    [
        (Lane(queue="desk"), who("desk"), True),
        (Lane(queue="desk"), who("*"), True),
        (Lane(queue="desk"), who("leads"), False),
        (Lane(queue="desk"), who(), False),
        (NAMED, who(), True),
        (NAMED, who("desk"), True),
        (SKILLED, who("desk", skills=("tax", "polish", "x")), True),
        (SKILLED, who("desk", skills=("tax",)), False),
        (SKILLED, who(skills=("tax", "polish")), False),
        (SKILLED, who("*"), False),
    ],
)
def test_rule_10_who_serves_a_lane(lane: Lane, known: Who, serves: bool) -> None:
    assert lane.serves(BOB, known) is serves
    assert lane.serves(BOB, None), "whoever owns the store is unrestricted"


def test_rule_10_where_people_are_named_serving_the_queue_is_not_enough() -> None:
    assert not NAMED.serves(ANN, who("desk"))
    assert not NAMED.serves(ANN, who("*"))
    assert NAMED.serves(ANN, who("legal"))


def test_what_a_lane_is_named_by_is_read_back() -> None:
    one = ticket(needs=Needs(candidates=[BOB], skills=["tax"], excluded=[ANN]))
    assert lane_of(one) == '{"queue":"desk","candidates":["user:bob"],"skills":["tax"]}'
    assert read_lane(lane_of(one)) == needs_of(one)
    assert lane_of(ticket()) == '{"queue":"desk"}'


def test_whom_four_eyes_exclude_makes_no_other_lane() -> None:
    """Else there were as many lanes as people who submit."""
    assert lane_of(ticket(needs=Needs(excluded=[ANN]))) == lane_of(ticket())


def test_what_is_held_or_rests_is_in_no_lane() -> None:
    assert lane_of(ticket(holder=Holder(by=BOB, claim_id="c", until=1))) == ""
    assert lane_of(ticket(snoozed_until=5)) == ""


#: What is offered first stands first.
FIRST: list[dict[str, Any]] = [
    {"priority": 10**12},
    {"priority": 9, "due_at": 5_000},
    {"priority": 1, "due_at": 4_000},
    {"priority": 1, "due_at": 5_000, "needs": Needs(skills=["a", "b"])},
    {"priority": 1, "due_at": 5_000, "needs": Needs(skills=["a"])},
    {"priority": 1, "due_at": 5_000, "opened_at": 900},
    {"priority": 1, "due_at": 5_000, "opened_at": 900, "ticket_no": 2},
    {"priority": 1, "due_at": 5_000, "opened_at": 1_000},
    {"priority": 1, "due_at": 10_000},
    {"priority": 1},
    {},
    {"priority": -1, "due_at": 1},
    {"priority": -(10**12)},
]


def test_priority_then_due_date_then_skills_then_age() -> None:
    orders = [order_of("s0-1", ticket(**fields)) for fields in FIRST]
    assert orders == sorted(orders)
    assert len(set(orders)) == len(orders)


def test_the_order_has_one_width_whatever_the_numbers_are() -> None:
    assert len({len(order_of("s0-1", ticket(**fields))) for fields in FIRST}) == 1
    most = replace(ticket(), needs=Needs(skills=[str(n) for n in range(2_000)]))
    assert len(order_of("s0-1", most)) == len(order_of("s0-1", ticket()))
