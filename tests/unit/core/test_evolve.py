import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

from passdown.broker.core.evolve import evolve, fold
from passdown.broker.core.state import State
from passdown.contracts import events as ev
from passdown.contracts.codec import decode, decode_any, digest, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.ticket_events import Resolution
from tests.unit.core import situations
from tests.unit.core.samples import written
from tests.unit.core.spec import BOB, Session


def logged(session: Session) -> list[ev.Logged]:
    return [decode(raw, ev.Logged) for raw in session.log]


def a_long_one() -> Session:
    """A session with an effect, questions, a ticket and a lost attempt in its log."""
    session = situations.running(ask="desk")
    session.report(session.run("refund", situations.ARGS), result={"id": 1})
    session.ask("why").resolve("answer", {"why": "so"}).claim().lose().claim()
    session.run("mail", {"to": "x"})
    return session.done({"go": 1}).claim().settle(e2="found").claim().done({"end": 1})


@pytest.mark.parametrize("name", situations.ALL)
def test_rule_06_folding_the_log_gives_the_stored_bytes(name: str) -> None:
    session = situations.ALL[name]()
    assert encode(session.refold()) == encode(session.state)


def test_rule_06_every_event_names_the_one_before_it() -> None:
    session = a_long_one()
    entries = logged(session)
    assert [one.seq for one in entries] == list(range(1, len(entries) + 1))
    assert entries[0].prev == ""
    for before, after in zip(session.log, entries[1:], strict=False):
        assert after.prev == digest(before)
    assert session.state.head == digest(session.log[-1])
    assert session.state.seq == len(session.log)


@pytest.mark.parametrize("place", range(1, 12))
def test_rule_06_a_log_that_was_changed_anywhere_does_not_fold(place: int) -> None:
    entries = logged(a_long_one())
    entries[place] = replace(entries[place], by="user:mallory")
    with pytest.raises(ContractError, match="the chain is broken"):
        fold(entries)


@pytest.mark.parametrize("place", range(1, 12))
def test_rule_06_a_log_that_lacks_an_event_does_not_fold(place: int) -> None:
    entries = logged(a_long_one())
    with pytest.raises(ContractError, match="log does not fit its contract"):
        fold([*entries[:place], *entries[place + 1 :]])


def test_rule_06_a_log_in_another_order_does_not_fold() -> None:
    entries = logged(a_long_one())
    entries[3], entries[4] = entries[4], entries[3]
    with pytest.raises(ContractError, match="the chain is broken"):
        fold(entries)


def test_rule_06_a_log_whose_clock_goes_back_does_not_fold() -> None:
    session = situations.queued()
    event = ev.Logged(
        seq=session.state.seq + 1,
        at=session.state.at - 1,
        by=BOB,
        prev=session.state.head,
        event=ev.Resumed(),
    )
    with pytest.raises(ContractError, match="the chain is broken"):
        evolve(session.state, event)


def test_rule_06_a_log_begins_with_the_session_being_opened() -> None:
    session = situations.queued()
    opened, entered = logged(session)[:2]
    with pytest.raises(ContractError, match="begins with SessionOpened, not with StageEntered"):
        evolve(None, entered)
    with pytest.raises(ContractError, match="begins with SessionOpened"):
        evolve(None, replace(opened, seq=2))
    with pytest.raises(ContractError, match="begins with SessionOpened"):
        evolve(None, replace(opened, prev="0" * 64))


def test_an_empty_log_is_no_session() -> None:
    assert fold([]) is None


def test_rule_06_a_log_holds_only_canonical_json() -> None:
    for raw in a_long_one().log:
        found: ev.Logged = decode_any(raw, ev.Logged)
        assert encode(found) == raw


def test_rule_06_another_process_with_another_hash_seed_folds_the_same_bytes() -> None:
    """Sets and dicts of strings have another order there."""
    code = (
        "from tests.unit.core.test_evolve import a_long_one; from passdown.contracts.codec import digest, encode;"
        "s = a_long_one(); print(digest(b''.join(s.log)), digest(encode(s.state)))"
    )
    here = a_long_one()
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()[0]
        for seed in ("1", "2")
    }
    assert told == {digest(b"".join(here.log))}


def test_a_state_is_frozen_and_evolving_leaves_it_alone() -> None:
    session = situations.running()
    before = encode(session.state)
    session.fail().claim().done({"x": 1})
    assert before != encode(session.state)
    earlier = fold(logged(session)[:4])
    assert isinstance(earlier, State)
    assert encode(earlier) == before


# What a log may not say, even where the status would allow it.


def refuse(session: Session, event: ev.Event, match: str) -> None:
    state = session.state
    entry = ev.Logged(seq=state.seq + 1, at=state.at, by=BOB, prev=state.head, event=event)
    with pytest.raises(ContractError, match=match):
        evolve(state, entry)


def test_no_pack_is_issued_while_one_is_out() -> None:
    session = situations.queued()
    refuse(session, written(session)["PackIssued"], "may not be issued")


def test_no_pack_is_issued_while_paused() -> None:
    session = situations.paused()
    refuse(session, written(session)["PackIssued"], "may not be issued")


def test_attempts_are_counted_without_gaps() -> None:
    session = situations.backoff()
    pack = written(session)["PackIssued"]
    assert isinstance(pack, ev.PackIssued)
    refuse(session, replace(pack, attempt=pack.attempt + 1), "attempt 3 may not be issued after 1")
    refuse(session, replace(pack, attempt=pack.attempt - 1), "attempt 1 may not be issued after 1")


def test_nothing_is_claimed_that_was_not_issued() -> None:
    session = situations.backoff()
    refuse(session, ev.Claimed(attempt=1, claim_id="claim-002"), "was not issued")


def test_a_session_is_opened_once() -> None:
    session = situations.queued()
    refuse(session, written(session)["SessionOpened"], "may not occur")


def test_an_effect_that_was_never_intended_does_not_end() -> None:
    session = situations.running()
    refuse(session, ev.EffectDone(effect_id="none"), "never intended")


def test_a_ticket_that_is_not_open_does_not_close() -> None:
    session = situations.failure()
    refuse(session, ev.TicketResolved(ticket_no=7, resolution="cancel"), "ticket 7 is not open")
    refuse(session, ev.TicketWithdrawn(ticket_no=7, why="w"), "ticket 7 is not open")


@pytest.mark.parametrize("resolution", ["approve", "deny"])
def test_nobody_decides_on_an_effect_that_was_never_proposed(resolution: Resolution) -> None:
    session = situations.failure()
    refuse(session, ev.TicketResolved(ticket_no=1, resolution=resolution), "never proposed")
