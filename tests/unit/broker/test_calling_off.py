"""Calling branches off: again after a crash, for another reason, and past one of them that cannot be (rule 1)."""

from typing import Any

import pytest
from msgspec.structs import replace

from passdown.broker.acts import Ask
from passdown.broker.client import Session
from passdown.broker.controller import Controller
from passdown.broker.joins import service as service_module
from passdown.broker.joins.service import JoinService
from passdown.broker.stores.base import Commit, Outcome, Stale, Store, Taken, TakeRequest
from passdown.broker.stores.joining import WOKEN_MS
from passdown.contracts import commands as cmd
from passdown.contracts.errors import Conflict, Unavailable
from passdown.contracts.ids import branch_id, join_id
from passdown.contracts.pack import Pack, Parent
from passdown.contracts.plans import FanOut, Grant, Plan, PlanRef, Stage
from tests.unit.broker.rig import ROLE, Bells, Rig, pay


def any_plan() -> Plan:
    """Return a plan that opens a branch for each item, of which one is enough."""
    fan_out = FanOut(each="items", stage="branch", need="any", merge="merger")
    branch = Stage(role=ROLE, tools=[Grant(tool="pay")])
    return Plan(name="any", start="split", stages={"split": Stage(fan_out=fan_out), "branch": branch})


def fanned(rig: Rig, key: str = "k", branches: int = 5) -> tuple[Session, dict[int, Pack]]:
    """Return a session whose branches are opened, and their packs by place."""
    rig.broker.register_tools([pay.spec])
    ref = rig.broker.register(any_plan())
    session = rig.broker.submit(ref, key=key, inputs={"items": list(range(branches))})
    JoinService(rig.controller).see_to_all([session.id])
    return session, {pack.parent.place: pack for pack in rig.take(branches) if pack.parent}


def enough(rig: Rig, session: Session, pack: Pack) -> None:
    """Let one branch be done, which is enough: the others are no longer needed."""
    rig.claim(pack, f"claim-{session.id[-8:]}").give()
    JoinService(rig.controller).look(join_id(session.id, 1))
    assert session.state().joins[0].told == 0


def statuses(rig: Rig, session: Session) -> list[str]:
    name = join_id(session.id, 1)
    return [rig.broker.session(branch_id(name, n)).status() for n in range(session.state().joins[0].opening)]


def test_rule_01_they_are_called_off_again_for_another_reason(rig: Rig) -> None:
    """A process called off some of them and died; then somebody calls off the session."""
    session, packs = fanned(rig)
    writing = rig.claim(packs[1])
    writing.pay()
    enough(rig, session, packs[0])
    rig.fail(None, None, *["before"] * 20, only=["commit"])
    with pytest.raises(Unavailable):
        JoinService(rig.controller).see_to_all([session.id])
    rig.fail()
    # The one that writes outside ends once that is known; it was called off, and is not over.
    assert statuses(rig, session) == ["done", "running", "cancelled", "queued", "queued"]
    session.cancel("changed my mind")
    rig.sweep()
    assert statuses(rig, session) == ["done", "running", "cancelled", "cancelled", "cancelled"]
    assert session.state().joins[0].told == 5
    rig.gateway.report(writing.claim, writing.effect_id(), "done")
    rig.clock.forward(WOKEN_MS)
    rig.sweep()
    assert session.status() == "cancelled"


class Contended:
    """A store in which others always get through first at one session, until it is told otherwise."""

    def __init__(self, inner: Store, at: str) -> None:
        self._inner = inner
        self.at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(
        self, commits: list[Commit], take: TakeRequest | None = None
    ) -> tuple[list[Outcome], Taken | None]:
        if any(one.session_id == self.at for one in commits):
            return [Stale(version=self._inner.load(one.session_id).version) for one in commits], None
        return self._inner.commit(commits, take)


def test_one_that_cannot_be_called_off_holds_back_no_other(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_AT_ONCE", 2)
    first, packs = fanned(rig, "a")
    second, others = fanned(rig, "b")
    enough(rig, first, packs[0])
    enough(rig, second, others[0])
    store: Any = Contended(rig.store, branch_id(join_id(first.id, 1), 2))
    service = JoinService(Controller(store, Bells(), patience_s=0.0))
    failed = service.see_to_all([first.id, second.id])
    assert list(failed) == [first.id]
    assert "it changed 50 times" in str(failed[first.id])
    assert statuses(rig, first) == ["done", "cancelled", "queued", "cancelled", "cancelled"]
    assert statuses(rig, second) == ["done", *["cancelled"] * 4]
    # It is recorded only once all of them are, so that the one is called off again.
    assert (first.state().joins[0].told, second.state().joins[0].told) == (0, 5)
    store.at = ""
    assert service.see_to_all([first.id]) == {}
    assert statuses(rig, first) == ["done", *["cancelled"] * 4]


def test_a_full_queue_is_no_store_that_is_away(rig: Rig) -> None:
    """Whoever comes after a session that finds no room is tried, and not answered with the error of that one."""
    rig.open(key="a")
    narrow = Controller(rig.store, Bells(), patience_s=0.0, queue_limit=1)
    session, _ = fanned(rig, "b", 0)
    ref = session.state().plan
    body = opening(ref, "branch")
    elsewhere = opening(ref, "split", {"items": []})
    asks = [Ask(f"s0-x.j-1.b-{n}", one, "user:a", None) for n, one in enumerate([body, elsewhere])]
    answers, _ = narrow.run_all(asks)
    assert [type(one).__name__ for one in answers] == ["QueueFull", "Done"]


def opening(plan: PlanRef, stage: str, inputs: dict[str, Any] | None = None, **more: Any) -> cmd.OpenBranch:
    parent = Parent(session_id="s0-x", join_id="s0-x.j-1", branch="0", stage="split", place=0)
    fields = {"parent": parent, "plan": plan, "stage": stage, "inputs": inputs or {}}
    return cmd.OpenBranch(**fields, task_id="t", task_name="T", **more)


def test_opening_and_calling_off_never_clash_whatever_they_say(rig: Rig) -> None:
    session, _ = fanned(rig, "b", 0)
    body = opening(session.state().plan, "branch")
    said = [body, replace(body, task_name="other"), *(replace(body, cancel=why) for why in ("a", "b"))]
    for one in [*said, *said[::-1]]:
        rig.controller.run("s0-x.j-1.b-0", one, "user:a")
    ended = rig.broker.session("s0-x.j-1.b-0").result(0)
    assert (ended.result, ended.reason) == ("cancelled", "a")
    with pytest.raises(Conflict):  # as any other act under another content is
        rig.broker.submit(session.state().plan, key="b", inputs={"items": [1]})
