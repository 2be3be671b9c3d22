import threading
from typing import Any

import pytest
from msgspec.structs import replace

from passdown.agents.claim import NOTES_KEPT, NOTES_WAITING, counter_key, read_note
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.port import Port
from passdown.agents.testing import make_pack
from passdown.contracts import ids
from passdown.contracts.codec import INLINE_LIMIT
from passdown.contracts.commands import ToolNote
from passdown.contracts.errors import Conflict, Denied, Fenced, Unavailable
from passdown.contracts.pack import PackSnapshot, seal
from tests.unit.agents.helpers import Flaky, claimed


def note(name: str = "look") -> ToolNote:
    return ToolNote(tool=name, args={})


def test_calls_of_equal_identity_are_counted_and_others_apart():
    claim, session = claimed(make_pack())
    first = claim.count("pay", {"order": 1})
    second = claim.count("pay", {"order": 1})
    other = claim.count("pay", {"order": 2})
    assert first[0] == ids.effect_id(session.name, 1, "pay", {"order": 1}, 1)
    assert [n for _, n, _ in (first, second, other)] == [1, 2, 1]
    assert second[2] == {counter_key("pay", {"order": 1}): 2}
    assert claim.counters() == {counter_key("pay", {"order": 1}): 2, counter_key("pay", {"order": 2}): 1}


def test_counters_go_on_from_the_snapshot():
    key = counter_key("pay", {"order": 1})
    held = PackSnapshot(attempt=1, data={"x": 1}, counters={key: 3})
    claim, _ = claimed(seal(replace(make_pack(), snapshot=held))[0])
    assert claim.count("pay", {"order": 1})[1] == 4
    assert claim.snapshot == {"x": 1}


def test_a_refused_call_is_not_counted_unless_another_came_since():
    claim, _ = claimed(make_pack())
    _, n, _ = claim.count("pay", {})
    claim.uncount("pay", {}, n)
    assert claim.counters() == {}
    claim.count("pay", {})
    claim.count("pay", {})
    claim.uncount("pay", {}, 1)
    assert claim.counters() == {counter_key("pay", {}): 2}
    claim.uncount("pay", {}, 2)
    assert claim.counters() == {counter_key("pay", {}): 1}


def test_an_ended_claim_raises_fenced_with_its_first_reason():
    claim, _ = claimed(make_pack())
    claim.require_held()
    claim.end("the lease was lost")
    claim.end("another reason")
    with pytest.raises(Fenced, match="the lease was lost"):
        claim.require_held()
    assert claim.ended is not None


def test_the_end_is_told_once_from_any_thread_and_at_once_where_it_came_before():
    claim, _ = claimed(make_pack())
    told: list[str] = []
    claim.when_ended(lambda: told.append("first"))
    threads = [threading.Thread(target=claim.end, args=("over",)) for _ in range(5)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert told == ["first"]
    claim.when_ended(lambda: told.append("late"))
    assert told == ["first", "late"]


def test_notes_ride_in_the_next_commit_with_their_age():
    claim, session = claimed(make_pack())
    claim.note(note())
    claim.flush()
    claim.flush()
    assert [one.tool for one in session.notes] == ["look"]
    assert session.notes[0].age_ms >= 0


def test_many_notes_crowd():
    claim, _ = claimed(make_pack())
    for _ in range(NOTES_WAITING):
        claim.note(note())
    assert not claim.crowded
    claim.note(note())
    assert claim.crowded


def refuse(error: Exception) -> Any:
    def act(_: object) -> None:
        raise error

    return act


def test_notes_of_a_commit_that_was_not_recorded_wait_for_the_next_one():
    claim, session = claimed(make_pack())
    claim.note(note("a"))
    with pytest.raises(Conflict):
        claim.commit(refuse(Conflict("x")))
    claim.note(note("b"))
    claim.flush()
    assert [one.tool for one in session.notes] == ["a", "b"]


def test_notes_of_a_denial_were_recorded_with_it():
    claim, session = claimed(make_pack())
    claim.note(note())
    with pytest.raises(Denied):
        claim.commit(refuse(Denied("a", "b", "c")))
    claim.flush()
    assert session.notes == []


def test_notes_stay_bounded_where_every_commit_is_refused():
    claim, session = claimed(make_pack())
    for n in range(NOTES_KEPT + 50):
        claim.note(note(str(n)))
        with pytest.raises(Conflict):
            claim.commit(refuse(Conflict("x")))
    claim.flush()
    assert len(session.notes) == NOTES_KEPT


def test_what_a_commit_learns_about_the_claim_is_kept():
    claim, _ = claimed(make_pack())
    with pytest.raises(Fenced):
        claim.commit(refuse(Fenced("a", "b", "another holds it")))
    assert claim.ended is not None
    assert claim.ended.why == "another holds it"
    claim, _ = claimed(make_pack())
    with pytest.raises(Unavailable):
        claim.commit(refuse(Unavailable("store", "away")))
    with pytest.raises(Unavailable, match="away"):
        claim.require_held()


def test_a_commit_whose_reply_was_lost_is_recorded_once():
    broker = MemoryGateway()
    flaky = Flaky(broker, {"tool": ["after", "before"]})
    claim, session = claimed(make_pack(), gateway=broker, port=Port(flaky.gateway))
    claim.note(note())
    claim.flush()
    assert len(session.notes) == 1
    assert flaky.asked == ["tool", "tool", "tool"]


def test_a_small_result_is_kept_a_large_one_only_by_digest_and_no_json_not_at_all():
    kept = read_note("look", {"a": 1}, {"b": 2})
    assert (kept.kept, kept.result, len(kept.result_digest)) == (True, {"b": 2}, 64)
    large = read_note("look", {}, "x" * INLINE_LIMIT)
    assert (large.kept, large.result, len(large.result_digest)) == (False, None, 64)
    assert not read_note("look", {"a": "x" * INLINE_LIMIT}, 1).kept
    strange = read_note("look", {}, object())
    assert (strange.kept, strange.result_digest) == (False, "")
    assert read_note("look", {}, float("nan")).result_digest == ""


def test_a_denied_note_is_fit_for_storing_whatever_the_model_called():
    claim, session = claimed(make_pack())
    claim.deny("\ud800" + "x" * 100_000, "why\ud800")
    claim.flush()
    assert len(session.notes[0].tool) < 300
    session.notes[0].tool.encode()
    session.notes[0].denied.encode()
