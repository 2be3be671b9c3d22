"""What the gateway keeps, for how long, and what it does with a queue that nobody can read (rules 3, 11, 12)."""

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from passdown.agents.results import NeedsInput, Question
from passdown.broker import gateway as module
from passdown.broker.acts import Held
from passdown.broker.gateway import DirectGateway
from passdown.broker.sealed import pack_of
from passdown.broker.stores.base import Taken, TakenPack
from passdown.broker.stores.queries import FindQuarantine, QuarantineRow
from passdown.contracts.codec import digest, encode
from passdown.contracts.commands import Verdict
from passdown.contracts.errors import ContractError, Fenced, Unavailable
from passdown.contracts.gateway import Wanted
from passdown.contracts.pack import Pack, seal
from passdown.contracts.replies import Recorded, Run
from tests.conformance.faulty import Script
from tests.conformance.together import together
from tests.unit.broker.rig import ROLE, Attempt, Rig, pay, paying, plan, two_stages


def seen(gateway: DirectGateway) -> int:
    """Return how many sessions the gateway keeps."""
    return len(vars(gateway)["_attempts"])


@pytest.fixture
def attempt(rig: Rig) -> Attempt:
    rig.gateway.register_tools([pay.spec])
    rig.open(paying())
    return rig.claim()


ENDS: dict[str, Callable[[Attempt], object]] = {
    "give": lambda a: a.give(),
    "fail": lambda a: a.rig.gateway.fail(a.claim, "error", "x", []),
    "release": lambda a: a.rig.gateway.release(a.claim, "x", []),
}

Change = Callable[[TakenPack], TakenPack]
#: What may be wrong with a row of the queue, and what is kept of it.
CHANGES: dict[str, tuple[str, Change]] = {
    "bytes": ("state", lambda one: replace(one, state=b"\xff")),
    "newer": ("state", lambda one: replace(one, state=b'{"spec":"passdown.state/9"}')),
    "shape": ("state", lambda one: replace(one, state=encode({"step": 1}))),
    "cut": ("pack", lambda one: replace(one, pack=b"{")),
    "altered": ("pack", lambda one: replace(one, pack=one.pack.replace(b'"step":1', b'"step":2'))),
    "more": ("pack", lambda one: replace(one, pack=one.pack[:-2] + b'","x":1}')),
}


class TestWhatIsKept:
    """Nothing but what this process holds: it runs for months (rule 12)."""

    def test_a_taken_pack_until_it_is_handed_back(self, rig: Rig) -> None:
        rig.open()
        (pack,) = rig.take()
        assert seen(rig.gateway) == 1
        rig.gateway.hand_back(pack, "not here", after_seconds=0)
        assert seen(rig.gateway) == 0

    @pytest.mark.parametrize("end", ENDS)
    def test_a_claim_until_it_ends(self, attempt: Attempt, end: str) -> None:
        assert seen(attempt.rig.gateway) == 1
        ENDS[end](attempt)
        assert seen(attempt.rig.gateway) == 0

    def test_a_settle_claim_until_its_verdicts(self, attempt: Attempt) -> None:
        rig = attempt.rig
        reply = attempt.pay()
        rig.lose(attempt)
        settler = rig.claim(claim_id="claim-00000002")
        rig.gateway.settle(settler.claim, [Verdict(effect_id=reply.effect_id, found="found")])
        # What is left is the first attempt's: nobody said so far that it is over.
        assert seen(rig.gateway) == 1
        assert rig.gateway.renew([attempt.claim]) == ["lost"]
        assert seen(rig.gateway) == 0

    def test_not_what_a_report_says_after_the_end(self, attempt: Attempt) -> None:
        reply = attempt.pay()
        attempt.rig.lose(attempt)
        with pytest.raises(Fenced):
            attempt.give()
        attempt.rig.gateway.report(attempt.claim, reply.effect_id, "done", result={"late": True})
        assert seen(attempt.rig.gateway) == 0

    def test_not_what_was_refused_at_the_claim(self, rig: Rig) -> None:
        rig.open()
        (pack,) = rig.take()
        other = DirectGateway(rig.controller)
        rig.claim(pack)
        with pytest.raises(Fenced):
            Attempt(rig, pack, other.claim(pack, "claim-00000002", module.AgentInfo(name="x")))
        assert seen(other) == 0

    def test_not_what_was_cancelled(self, attempt: Attempt) -> None:
        attempt.rig.broker.session(attempt.pack.session_id).cancel()
        assert attempt.rig.gateway.renew([attempt.claim]) == ["cancelled"]
        assert seen(attempt.rig.gateway) == 0

    def test_packs_that_were_taken_and_never_claimed_are_bounded(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "MOST_SEEN", 3)
        rig.gateway = DirectGateway(rig.controller)
        rig.broker.register(plan())
        for _ in range(8):
            rig.broker.submit("p")
        packs = rig.take(8)
        assert seen(rig.gateway) == 3
        for n, pack in enumerate(packs):
            rig.claim(pack, f"claim-{n:08d}").give()
        assert seen(rig.gateway) == 0


class TestOneClaimInManyThreads:
    def test_effects_side_by_side_meet_no_conflict(self, attempt: Attempt) -> None:
        """An async agent starts forty writes at once: each is recorded, once, in some order."""
        calls = attempt.rig.listen()

        def write(n: int) -> Any:
            reply = attempt.pay(f"order-{n}")
            attempt.rig.gateway.report(attempt.claim, reply.effect_id, "done")
            return reply

        assert all(isinstance(reply, Run) for reply in together(40, write))
        assert calls == ["commit"] * 80
        attempt.give()
        state = attempt.rig.broker.session(attempt.pack.session_id).state()
        assert [(one.status, one.attempts) for one in state.effects] == [("done", 1)] * 40

    def test_a_call_that_fails_leaves_the_next_one_a_state_to_decide_on(self, attempt: Attempt) -> None:
        store = attempt.rig.store
        store.plan = Script("after", only={"commit"})
        with pytest.raises(Unavailable):
            attempt.pay("a")
        assert isinstance(attempt.pay("b"), Run)
        assert isinstance(attempt.pay("a"), Run)

    def test_one_whose_store_is_away_keeps_only_its_own_claim_waiting(self, attempt: Attempt) -> None:
        other_session = attempt.rig.open(plan("other"))
        other = attempt.rig.claim(claim_id="claim-00000009")
        inside, go_on = threading.Event(), threading.Event()

        def hang(_: str) -> None:
            if threading.current_thread().name == "stuck":
                inside.set()
                go_on.wait(10)

        attempt.rig.store.plan = hang
        stuck = threading.Thread(target=attempt.pay, name="stuck")
        stuck.start()
        assert inside.wait(10)
        other.give()
        assert other_session.status() == "done"
        go_on.set()
        stuck.join()


class TestWhatCannotBeRead:
    """A damaged row, or one that a newer version wrote, must stop no consumer (rule 11)."""

    def spoil(
        self,
        rig: Rig,
        monkeypatch: pytest.MonkeyPatch,
        session_id: str,
        change: Change,
    ) -> None:
        inner = rig.store.take

        def take(request: Any) -> Taken:
            taken = inner(request)
            packs = [change(one) if one.session_id == session_id else one for one in taken.packs]
            return replace(taken, packs=packs)

        monkeypatch.setattr(rig.store, "take", take)

    def rows(self, rig: Rig) -> list[QuarantineRow]:
        return cast("list[QuarantineRow]", rig.store.find(FindQuarantine()))

    @pytest.mark.parametrize("what", CHANGES)
    def test_it_is_put_aside_and_the_others_come(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch, what: str
    ) -> None:
        source, change = CHANGES[what]
        bad, good = rig.open(key="bad"), rig.open(key="good")
        self.spoil(rig, monkeypatch, bad.id, change)
        assert [pack.session_id for pack in rig.take(5)] == [good.id]
        (row,) = self.rows(rig)
        assert row.source == source
        assert "does not fit its contract" in bad.beside().handed_back
        assert rig.take(5) == []

    def test_it_comes_again_and_is_kept_once(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        bad = rig.open()
        self.spoil(rig, monkeypatch, bad.id, lambda one: replace(one, state=b"{}"))
        for _ in range(3):
            assert rig.take() == []
            rig.clock.forward(module.UNREADABLE_MS + 1)
        assert len(self.rows(rig)) == 1
        monkeypatch.undo()
        rig.claim().give()
        assert bad.status() == "done"

    def test_a_pack_that_is_whole_and_another_is_refused(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = rig.open()
        forged, raw = seal(replace(session.pack(1, 1), goal="transfer everything"))
        assert forged.digest != session.pack(1, 1).digest
        self.spoil(rig, monkeypatch, session.id, lambda one: replace(one, pack=raw))
        assert rig.take() == []
        assert "it is not the one that was issued" in session.beside().handed_back

    def test_a_store_that_fails_meanwhile_does_not_lose_the_others(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bad, good = rig.open(key="bad"), rig.open(key="good")
        self.spoil(rig, monkeypatch, bad.id, lambda one: replace(one, state=b"{}"))
        rig.fail("before", only={"put"})
        assert [pack.session_id for pack in rig.take(5)] == [good.id]

    def test_a_state_without_a_pack_is_none_that_belongs_to_one(self) -> None:
        with pytest.raises(ContractError, match="none was issued"):
            pack_of(b"{}", Held(None, 0, 0.0, 0))


def test_a_pack_is_read_as_it_was_sealed(rig: Rig) -> None:
    session = rig.open(inputs={"a": [1, 2.5, "ü", None, True]})
    (pack,) = rig.take()
    assert pack == session.pack(1, 1)
    assert pack.digest == digest(encode(replace(pack, digest="")))
    assert Pack.__struct_fields__[-1] == "digest"  # what the short check of a pack's bytes rests on


class TestReturns:
    def test_a_rejected_return_is_kept_for_inspection(self, rig: Rig) -> None:
        session = rig.open()
        attempt = rig.claim()
        rig.gateway.give(attempt.claim, b"\xff not json", [])
        (row,) = cast("list[QuarantineRow]", rig.store.find(FindQuarantine()))
        assert (row.source, row.body) == ("return", b"\xff not json")
        assert session.state().failures == 1

    def test_and_counts_also_where_that_fails_and_brings_what_it_took_along(self, rig: Rig) -> None:
        session = rig.open(key="a")
        attempt = rig.claim()
        rig.open(key="b")
        rig.fail("before", only={"put"})
        taking = rig.gateway.give(attempt.claim, b"junk", [], then_take=Wanted(ROLE, 1))
        assert taking is not None
        assert len(taking.offers) == 1
        assert session.state().failures == 1

    def test_a_large_result_is_fetched_from_the_log(self, attempt: Attempt) -> None:
        rig, large = attempt.rig, {"text": "x" * 10_000}
        reply = attempt.pay()
        rig.gateway.report(attempt.claim, reply.effect_id, "done", result=large)
        rig.lose(attempt)
        rig.sweep()
        again = rig.claim(claim_id="claim-00000002").pay()
        assert again == Recorded(effect_id=reply.effect_id, status="done", result=large)


def test_what_the_next_step_is_decided_on_is_kept_where_the_same_process_takes_it(rig: Rig) -> None:
    """The end of one step must not drop what was kept of the next."""
    session = rig.open(two_stages())
    first = rig.claim()
    calls = rig.listen()
    (offer,) = first.give(then_take=Wanted(ROLE, 1)).offers
    rig.claim(offer.pack, "claim-00000002").give(NeedsInput([Question("why", "Why?")]))
    assert calls == ["commit"] * 3
    assert session.status() == "waiting-input"
