"""A store with plans that fan out, whose branches tests of the command line drive by hand, without any process."""

from pathlib import Path
from typing import Any, Literal

from passdown.agents import (
    Agent,
    Done,
    Escalate,
    Options,
    Pack,
    Refused,
    Runtime,
    SyncContext,
    Tool,
    agent,
    tool,
)
from passdown.broker.client import Broker, Session
from passdown.broker.gateway import DirectGateway
from passdown.broker.joins.service import JoinService
from passdown.contracts.codec import encode
from passdown.contracts.gateway import AgentInfo, Claim
from passdown.contracts.plans import MERGER, Backoff, FanOut, Grant, Next, Plan, Returns, Stage
from passdown.contracts.returns import DoneReturn
from tests.unit.cli.desk import broker_on

ROLES = ("reviewer", MERGER, "writer")
_NO_WAIT = Backoff(first_seconds=0.0)
NAMES = ("ann", "bob", "carl")


def review_plan(**more: Any) -> Plan:
    """Three named reviewers, whose verdicts must agree; then a letter is written."""
    contract: dict[str, Any] = {"conflict": ["verdict"], "merge": "first", **more}
    return Plan(
        name="review",
        start="fan",
        stages={
            "fan": Stage(
                fan_out=FanOut(branches=dict.fromkeys(NAMES, "review"), **contract), next=Next(to="letter")
            ),
            "review": _review(),
            "letter": Stage(role="writer", backoff=_NO_WAIT),
        },
    )


def batch_plan(**more: Any) -> Plan:
    """A branch for each document."""
    contract: dict[str, Any] = {
        "each": "documents",
        "stage": "review",
        "item": "document",
        "key": "name",
        **more,
    }
    return Plan(
        name="batch", start="fan", stages={"fan": Stage(fan_out=FanOut(**contract)), "review": _review()}
    )


def nested_plan() -> Plan:
    """Branches within branches within branches, two of each."""
    stages = {
        f"fan{level}": Stage(fan_out=FanOut(branches={"a": following, "b": following}))
        for level, following in ((1, "fan2"), (2, "fan3"), (3, "review"))
    }
    return Plan(name="nested", start="fan1", stages={**stages, "review": _review()})


def _review() -> Stage:
    return Stage(
        role="reviewer",
        tools=[Grant(tool="notes.write")],
        backoff=_NO_WAIT,
        max_attempts=1,
        on_failed="fail",
        returns=Returns(evidence="optional"),
    )


class Notes:
    """Keeps what a commit leads to about joins until it is done, in this thread."""

    def __init__(self, service: JoinService) -> None:
        self._service = service
        self._noted: list[tuple[str, str]] = []

    def note(self, what: Literal["look", "see-to"], subject: str) -> None:
        self._noted.append((what, subject))

    def close(self) -> None:
        self._noted.clear()

    def do(self) -> bool:
        """Do all that was noted; returns whether there was anything."""
        noted, self._noted = self._noted, []
        for what, subject in dict.fromkeys(noted):
            act = self._service.look_all if what == "look" else self._service.see_to_all
            assert act([subject]) == {}
        return bool(noted)


class Workshop:
    """A store in a file with reviewers, who say what `says` has for their branch; those that it lacks wait."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'workshop.db'}"
        self.broker: Broker = broker_on(self.url)
        controller = self.broker.app.controller
        self._notes = Notes(JoinService(controller))
        controller.afterwards = self._notes
        #: Branch → what its reviewer does: an output, a return, or an exception to raise.
        self.says: dict[str, Any] = {}
        self.otherwise: Any = {"verdict": "fine"}
        self.outside: list[str] = []
        self.gateway = DirectGateway(controller)
        self._runtime = Runtime(
            self.gateway, agents=self._agents(), tools=self._tools(), options=Options(linger_seconds=0)
        )
        self._runtime.start()

    def _tools(self) -> list[Tool[..., Any]]:
        @tool("notes.write", effect=True, identity=["about"])
        def write_note(about: str, *, key: str) -> dict[str, Any]:
            """Write a note."""
            self.outside.append(key)
            return {"id": f"n-{about}"}

        return [write_note]

    def _agents(self) -> list[Agent]:
        @agent("reviewer", version="2")
        def reviewer(pack: Pack, ctx: SyncContext) -> Done | Refused | Escalate:
            name = pack.parent.branch if pack.parent else ""
            said = self.says.get(name, self.otherwise)
            if isinstance(said, Exception):
                raise said
            if isinstance(said, Done | Refused | Escalate):
                return said
            said = dict(said)
            if said.pop("note", None):
                ctx.call("notes.write", about=name)
            evidence = [{"claim": f"read by {name}", "source": f"page {len(name)}"}]
            return Done(said, evidence=evidence, uncertainty=0.25)

        @agent("writer")
        def writer(_pack: Pack, _ctx: SyncContext) -> Done:
            return Done({"letter": "Dear Sir"})

        return [reviewer, writer]

    def submit(self, plan: Plan, key: str = "k", **more: Any) -> Session:
        """Open a session of a plan and its branches."""
        session = self.broker.submit(self.broker.register(plan), key=key, task=f"Task of {key}", **more)
        self.settle()
        return session

    def work(self, *roles: str) -> None:
        """Let agents of some roles (all of them) do what waits for them, until nothing does."""
        wanted = roles or ROLES
        self.settle()
        while ready := [row.role for row in self.broker.queues() if row.ready and row.role in wanted]:
            for role in ready:
                self._runtime.drain(role)
            self.settle()

    def hold(self, role: str = "reviewer") -> tuple[Pack, Claim]:
        """Claim the next pack of a role, and keep it."""
        (offer,) = self.gateway.take(role, 1).offers
        claim = self.gateway.claim(offer.pack, f"held-{offer.pack.session_id}", AgentInfo(name="slow"))
        return offer.pack, claim

    def settle(self) -> bool:
        """Open branches, look at joins, call off, until there is nothing of it to do; returns whether there was."""
        did = False
        while self._notes.do():
            did = True
        return did

    def look(self, join_id: str) -> None:
        """Look at a join once, and do nothing of what follows from it."""
        controller = self.broker.app.controller
        afterwards, controller.afterwards = controller.afterwards, None
        JoinService(controller).look(join_id)
        controller.afterwards = afterwards

    def catch_up(self, session: Session) -> None:
        """Do what another process left to the tick: see to a session's branches, and look at its joins."""
        service = JoinService(self.broker.app.controller)
        assert service.see_to_all([session.id]) == {}
        for join in session.joins():
            service.look(join.join_id)
        self.settle()

    def give(self, pack: Pack, claim: Claim, output: dict[str, Any], *, settle: bool = True) -> None:
        """Give the return of a pack that was held, and see to what follows."""
        fence = claim.fence
        body = DoneReturn(
            session_id=pack.session_id,
            step=fence.step,
            attempt=fence.attempt,
            claim_id=fence.claim_id,
            pack_digest=pack.digest,
            stage=pack.stage,
            next_step=None,
            output=output,
        )
        self.gateway.give(claim, encode(body), [])
        if settle:
            self.settle()

    def close(self) -> None:
        """Let go of everything."""
        self._runtime.stop(0)
        self.broker.close()
