"""A store that goes on from an older copy of itself while workers hold what came after: what a lost second is."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from passdown.agents import Done, Options, Pack, Runtime, SyncContext, Tool, agent, tool
from passdown.agents.port import HookPoint, no_hooks
from passdown.broker.cli.views.transitions import prove
from passdown.broker.client import Broker, Session
from passdown.broker.gateway import DirectGateway
from passdown.broker.stores.queries import FindQuarantine, QuarantineRow
from passdown.broker.tick import Tick
from passdown.contracts.errors import Fenced
from passdown.contracts.gateway import AgentInfo
from passdown.contracts.pack import Pack as AnyPack
from passdown.contracts.plans import Backoff, Grant, Plan, Stage
from tests.integration.proof import assert_sound

ME = AgentInfo(name="me")
PLAN = Plan(
    name="writes",
    start="only",
    stages={"only": Stage(role="writer", tools=[Grant(tool="mail")], backoff=Backoff(first_seconds=0.0))},
)


class Rolled:
    """A store that can be put back to a copy of it, below all who use it."""

    def __init__(self, folder: Path) -> None:
        self._path, self._copy = folder / "a.db", folder / "copy.db"
        self.broker = Broker.connect(f"sqlite:///{self._path}", transport="memory://", by="user:producer")
        self.gateway = DirectGateway(self.broker.app.controller)
        self.written: list[str] = []
        self.broker.register(PLAN)

    def keep(self) -> None:
        """Copy the store as it is."""
        _copy(self._path, self._copy)

    def roll_back(self) -> None:
        """Lose all that came after the copy."""
        _copy(self._copy, self._path)

    def runtime(self, hooks: Callable[[HookPoint, AnyPack | None], None] | None = None) -> Runtime:
        """Return a worker whose tool writes down under which key it wrote."""

        @tool("mail", effect=True)
        def mail(to: str, *, key: str) -> dict[str, int]:
            self.written.append(key)
            return {"number": len(self.written)}

        @agent("writer")
        def writer(pack: Pack, ctx: SyncContext) -> Done:
            return Done({"sent": ctx.call("mail", to="ann")["number"]})

        tools: list[Tool[..., Any]] = [mail]
        options = Options(linger_seconds=0, patience_seconds=2)
        return Runtime(self.gateway, agents=[writer], tools=tools, options=options, hooks=hooks or no_hooks)

    def quarantined(self) -> list[str]:
        """Return what was kept for people."""
        found = self.broker.app.store.find(FindQuarantine())
        return (
            [row.reason for row in found if isinstance(row, QuarantineRow)] if isinstance(found, list) else []
        )

    def sound(self, session: Session) -> None:
        """Fail unless the log gives the state, byte for byte, in an unbroken chain."""
        proof = prove(self.broker.app.store, session.id)
        assert proof.holds, proof.problems
        assert_sound(session)


def _copy(source: Path, target: Path) -> None:
    with sqlite3.connect(source) as there, sqlite3.connect(target) as here:
        there.backup(here)
    there.close()
    here.close()


@pytest.fixture
def rolled(tmp_path: Path) -> Iterator[Rolled]:
    made = Rolled(tmp_path)
    yield made
    made.broker.close()


def test_rule_03_an_intent_that_the_store_lost_is_recorded_again_by_the_claim_that_wrote(
    rolled: Rolled,
) -> None:
    """Also for a tool that absorbs no repeat: the worker lives, and its claim stands."""

    def hook(point: HookPoint, _: AnyPack | None) -> None:
        if point == "before_intent":
            rolled.keep()
        elif point == "after_write":
            rolled.roll_back()

    with rolled.runtime(hook) as runtime:
        session = rolled.broker.submit("writes")
        runtime.drain("writer")
    assert session.status() == "done"
    assert session.result().output == {"sent": 1}
    (effect,) = session.state().effects
    assert (effect.status, rolled.written) == ("done", [effect.effect_id])
    assert rolled.quarantined() == []
    rolled.sound(session)


def test_rule_03_a_write_whose_claim_was_lost_as_well_is_kept_for_a_person(rolled: Rolled) -> None:
    """The next attempt meets the same effectId: a tool that dedupes absorbs it; for others see docs/durability.md."""
    lost: list[str] = []

    def hook(point: HookPoint, _: AnyPack | None) -> None:
        if point == "before_claim" and not lost:
            rolled.keep()
        elif point == "after_write" and not lost:
            lost.extend(rolled.written)
            rolled.roll_back()

    with rolled.runtime(hook) as runtime:
        session = rolled.broker.submit("writes")
        runtime.drain("writer")
        assert session.status() == "queued", "the claim never was"
        (kept,) = rolled.quarantined()
        assert f"session {session.id} knows of no such intent" in kept
    rolled.sound(session)


def test_rule_02_a_worker_that_holds_what_the_store_lost_cannot_write_on_top_of_another_s_history(
    rolled: Rolled,
) -> None:
    """Both claims lead to the same version, and only the hash chain tells them apart."""
    with rolled.runtime():
        session = rolled.broker.submit("writes")
        (offer,) = rolled.gateway.take("writer", 1).offers
        rolled.keep()
        first = rolled.gateway.claim(offer.pack, "claim-first-0001", ME)
        rolled.roll_back()
        other = DirectGateway(rolled.broker.app.controller)
        second = other.claim(offer.pack, "claim-second-001", ME)
        version = session.state().seq
        with pytest.raises(Fenced):
            rolled.gateway.checkpoint(first, 1, {"mine": True}, {}, [])
        assert session.state().seq == version
        other.checkpoint(second, 1, {"mine": False}, {}, [])
        with pytest.raises(Fenced):
            rolled.gateway.fail(first, "error", "no", [])
        other.fail(second, "error", "no", [])
    rolled.sound(session)


def test_rule_06_commands_that_were_lost_are_carried_out_when_they_are_sent_again(rolled: Rolled) -> None:
    session = rolled.broker.submit("writes", key="k")
    rolled.keep()
    session.pause()
    rolled.roll_back()
    assert rolled.broker.submit("writes", key="k").id == session.id
    session.pause()
    assert session.state().paused
    session.resume()
    Tick(rolled.broker.app.controller).once()
    rolled.sound(session)
