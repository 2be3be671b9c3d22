"""What must hold between the steps of a history, by the number of the rule in DESIGN §3."""

from passdown.broker.core.decide import dues
from passdown.broker.core.state import State
from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import FindSessions, FindTickets, SessionRow, TicketRow
from passdown.contracts import events as ev
from passdown.contracts.codec import STATE_BUDGET, encode
from tests.conformance.histories.outside import Arrival, Outside
from tests.conformance.histories.stores import Driver, Rows
from tests.conformance.histories.surroundings import Bells
from tests.conformance.histories.watch import Followed, Watch


def check(watch: Watch, driver: Driver, outside: Outside) -> Rows:
    """Hold the whole world to every rule about states; return what stands beside them."""
    rows = driver.rows()
    states = {session_id: followed.state for session_id, followed in watch.sessions.items()}
    rule_1_rows_beside_the_state_follow_from_it(states, rows)
    rule_1_sessions_and_tickets_are_found_as_they_stand(states, driver.store)
    for followed in watch.sessions.values():
        rule_1_an_open_session_waits_for_what_can_happen(followed.state, rows)
        rule_12_a_state_is_within_its_budget(followed.state)
    rule_3_the_outside_was_written_once(watch, outside)
    return rows


def rule_1_rows_beside_the_state_follow_from_it(states: dict[str, State], rows: Rows) -> None:
    """A pack is in the queue iff it is issued and not claimed; a lease runs iff a claim is held; dues are the state's."""
    queue = {
        session_id: (state.issued.role, state.step, state.issued.attempt)
        for session_id, state in states.items()
        if state.issued and state.claim is None
    }
    assert rows.queue == queue, "rule 1: the queue is not what the states issued"
    leases = {session_id: state.claim.claim_id for session_id, state in states.items() if state.claim}
    assert {name: row[0] for name, row in rows.leases.items()} == leases, (
        "rule 1: leases are not the claims held"
    )
    for session_id, (_, standing) in rows.leases.items():
        # A claim that began while the session was ending already is one that settles, and is not told to stop.
        ending = states[session_id].ending
        assert standing in (("held", "cancelled") if ending else ("held",)), f"rule 1: a lease is {standing}"
    waited = {
        session_id: {(one.kind, one.subject, one.at) for one in found}
        for session_id, state in states.items()
        if (found := dues(state))
    }
    assert rows.dues == waited, "rule 1: due entries are not what the states wait for"


def rule_1_a_new_pack_is_rung_for(bells: Bells, rows: Rows) -> None:
    """Since the last take of its role somebody rang for each pack that came after it (where no reply was lost)."""
    last: dict[tuple[str, str], int] = {}
    for number, (what, role, session_id) in enumerate(bells.order):
        last[what, session_id or role] = number
    for session_id, (role, _, _) in rows.queue.items():
        taken = last.get(("take", role), -1)
        if last[("pack", session_id)] > taken:
            assert last.get(("ring", role), -1) > taken, f"rule 1: nobody rang for the pack of {session_id}"


def rule_1_sessions_and_tickets_are_found_as_they_stand(states: dict[str, State], store: Store) -> None:
    tickets: list[TicketRow] = store.find(FindTickets(limit=1000))  # pyright: ignore[reportAssignmentType]
    found = {
        (row.session_id, row.ticket_no): (row.version, row.kind, row.queue, row.about) for row in tickets
    }
    wanted = {
        (session_id, one.ticket_no): (one.version, one.kind, one.queue, one.about)
        for session_id, state in states.items()
        for one in state.tickets
    }
    assert found == wanted, "rule 1: ticket rows are not the states' open tickets"
    sessions: list[SessionRow] = store.find(FindSessions(limit=1000))  # pyright: ignore[reportAssignmentType]
    assert {row.session_id: (row.status, row.stage, row.version) for row in sessions} == {
        session_id: (state.shown_status, state.stage, state.seq) for session_id, state in states.items()
    }, "rule 1: sessions are not found as they stand"


def rule_1_an_open_session_waits_for_what_can_happen(state: State, rows: Rows) -> None:
    """Somebody's next act is possible: a worker's, the tick's, or a person's (fault 61)."""
    if state.over:
        return
    name = state.session_id
    by_worker = name in rows.leases or (name in rows.queue and rows.queue[name][0])
    by_tick = bool({kind for kind, _, _ in rows.dues.get(name, set())} & {"retry-at", "resume-at"})
    by_person = (
        state.paused
        or any(one.actions for one in state.tickets)
        or any(not one.answered for one in state.questions)
    )
    assert by_worker or by_tick or by_person, (
        f"rule 1: {name} is {state.shown_status} and waits for nothing: {state}, {rows}"
    )


def rule_12_a_state_is_within_its_budget(state: State) -> None:
    size = len(encode(state))
    assert size <= STATE_BUDGET, f"rule 12: a state of {size} bytes"


def rule_3_nothing_is_written_without_an_intent(followed: Followed, arrival: Arrival) -> None:
    """At the moment of the write its intent is on record, with exactly these arguments."""
    intents = [one for one in followed.intents(arrival.key) if one.claim_id == arrival.claim_id]
    assert intents, "rule 3: a write outside without a recorded intent"
    assert intents[-1].args == arrival.args, "rule 3: a write with other arguments than were recorded"


def rule_3_the_outside_was_written_once(watch: Watch, outside: Outside) -> None:
    for key, came in outside.arrivals.items():
        followed = watch.sessions[key.partition(".")[0]]
        if came[0].tool in outside.absorbs:
            continue
        allowed = 1 + sum(
            isinstance(one.event, ev.EffectSettled)
            and one.event.effect_id == key
            and one.event.status == "not-done"
            and one.event.how == "person"
            for one in followed.steps
        )
        assert len(came) <= allowed, f"rule 3: {key} was written {len(came)} times"
