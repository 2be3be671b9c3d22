"""Random commands, valid and stale, over random small plans: the invariants hold after each of them.

`Session.do` checks them (`invariants`); here are those that need the whole history, and that every
session can be brought to an end, whatever happened to it (nothing waits for what cannot happen).
"""

import os
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from passdown.broker.core.decide import dues
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import encode
from passdown.contracts.errors import ContractError, PassdownError
from passdown.contracts.plans import Backoff, Grant, Level, Next, Overdue, People, Permit, Plan, Stage
from passdown.contracts.returns import (
    DoneReturn,
    EscalateReturn,
    Fence,
    NeedsInputReturn,
    Question,
    RefusedReturn,
)
from passdown.contracts.ticket_events import Resolution
from tests.unit.core.plans import MAIL, READ, REFUND
from tests.unit.core.spec import AGENT, ANN, BOB, CLERK, TICK, Session

EXAMPLES = int(os.environ.get("CORE_EXAMPLES", "150"))

#: Approves nothing but where everything is brought to an end.
DAN = "user:dan"

#: What an op's number picks, where the state offers several things.
Op = tuple[str, int]


@st.composite
def stages(draw: st.DrawFn, names: list[str]) -> Stage:
    target = st.sampled_from([*names, "end"])
    maybe = st.none() | target
    if draw(st.integers(0, 7)) == 0:
        return Stage(queue="desk", next=Next(to=draw(target)), max_entries=draw(st.integers(1, 3)))
    following = draw(
        st.sampled_from(
            [Next(to=draw(target)), Next(field="go", cases={"x": draw(target), "y": draw(target)})]
        )
    )
    return Stage(
        role="worker",
        tools=[
            Grant(
                tool="refund",
                approve=draw(st.sampled_from([None, "approvers"])),
                approval_seconds=60.0,
                approvals=draw(st.sampled_from([1, 1, 2])),
                params=draw(st.sampled_from([{}, {"cents": {"maximum": 1}}])),
            ),
            Grant(tool="mail"),
            Grant(tool="orders.read"),
        ],
        ask=draw(st.sampled_from(["producer", "desk"])),
        recovery=draw(st.sampled_from(["rerun", "continue", "human"])),
        deadline_seconds=draw(st.sampled_from([None, None, None, 60.0])),
        max_attempts=draw(st.integers(1, 3)),
        max_entries=draw(st.integers(1, 3)),
        backoff=Backoff(first_seconds=draw(st.sampled_from([0.0, 1.0]))),
        next=following,
        on_refused=draw(maybe),
        on_denied=draw(maybe),
        on_failed=draw(maybe | st.just("fail")),
        escalation=draw(st.sampled_from([[], [Level(queue="boss", after_seconds=1.0)]])),
        overdue=draw(st.none() | st.builds(Overdue, after_seconds=st.just(2.0), to=target | st.just("fail"))),
        permits=draw(st.sampled_from([[], [Permit(tool="refund", queue="security")]])),
        people=People(lease_seconds=draw(st.sampled_from([1.0, 900.0]))),
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    return Plan(
        name="random",
        start="a",
        max_steps=draw(st.integers(3, 6)),
        stages={one: draw(stages(names)) for one in names},
    )


_CANCEL: list[Resolution] = ["cancel"]


class Player:
    """Plays ops on a session; each is read as far as the state has use for it."""

    def __init__(self, plan: Plan, session: Session | None = None) -> None:
        self.session = session or Session(plan, REFUND, MAIL, READ)
        self.sent: list[tuple[cmd.Body, str]] = []
        self.fences: list[Fence] = []
        self.counters: dict[str, dict[str, int]] = {}
        self.refused: Counter[str] = Counter()

    def send(self, body: cmd.Body, by: str = AGENT) -> None:
        self.sent.append((body, by))
        try:
            self.session.do(body, by)
        except ContractError as error:
            if error.what == "log":
                raise AssertionError(f"decide led to what cannot be folded: {error}") from error
            self.refused[error.code] += 1
        except PassdownError as error:
            self.refused[error.code] += 1

    def play(self, op: str, pick: int) -> None:
        getattr(self, f"_{op}")(pick)

    def _fence(self, pick: int) -> Fence:
        """The current fence most of the time, else an old one."""
        if pick % 7 == 0 and self.fences:
            return self.fences[pick % len(self.fences)]
        return self.session.fence

    def _act(self, pick: int) -> None:
        """Do something that the state has use for."""
        state = self.session.state
        found: list[str] = []
        if state.claim:
            found += ["settle", "settle", "report", "lose"] if state.settling() else _BY_CLAIM
        elif state.issued:
            found += ["claim"] * 3
        if state.effects and not state.claim:
            found += ["report"]
        found += ["resolve", "resolve", "resolve", "desk", "desk"] * bool(state.tickets)
        found += ["answer"] * 2 * state.unanswered()
        found += ["resume"] * state.paused + ["due"] * (not found and not state.over)
        self.play(found[pick % len(found)] if found else "again", pick // len(found or "1"))

    def _again(self, pick: int) -> None:
        if self.sent:
            self.send(*self.sent[pick % len(self.sent)])

    def _claim(self, pick: int) -> None:
        session = self.session
        issued = session.state.issued
        fence = session.next_fence()
        self.send(cmd.Claim(fence=fence, pack_digest=issued.digest if issued else "0" * 64))
        if session.state.claim and session.state.claim.claim_id == fence.claim_id:
            session.fence = fence
            self.fences.append(fence)
            kept = session.pack.snapshot
            self.counters[fence.claim_id] = dict(kept.counters) if kept else {}

    def _release(self, pick: int) -> None:
        self.send(cmd.Release(fence=self._fence(pick)))

    def _checkpoint(self, pick: int) -> None:
        fence = self._fence(pick)
        counters = self.counters.get(fence.claim_id, {})
        self.send(cmd.Checkpoint(fence=fence, number=pick, data={"n": pick}, counters=dict(counters)))

    def _note(self, pick: int) -> None:
        tool = ["orders.read", "refund", "unheard-of"][pick % 3]
        note = cmd.ToolNote(tool=tool, args={"id": pick % 4}, kept=True, result=pick)
        self.send(cmd.NoteTools(fence=self._fence(pick), number=pick, notes=[note]))

    def _intend(self, pick: int) -> None:
        fence = self._fence(pick)
        tool = ("refund", "mail")[pick % 2]
        args: dict[str, Any] = {"to": pick % 3} if tool == "mail" else {"order": "o", "cents": 1 + pick % 2}
        if tool == "refund" and pick % 5 == 0:
            args["memo"] = str(pick % 4)
        name = next(iter(self.session.intent(tool, args).counters))
        counters = self.counters.setdefault(fence.claim_id, {})
        counters[name] = counters.get(name, 0) + 1
        effects = [row.effect_id for row in self.session.state.effects]
        after = effects[pick % len(effects)] if effects and pick % 3 else None
        body = self.session.intent(tool, args, counters[name], after=after, also=counters)
        self.send(replace(body, fence=fence))

    def _report(self, pick: int) -> None:
        pairs = [(row.effect_id, claim) for row in self.session.state.effects for claim in row.claims]
        if pairs:
            effect_id, claim = pairs[-1] if pick % 2 else pairs[pick % len(pairs)]
            phase = ("done", "failed", "unknown")[pick % 3]
            self.send(cmd.Report(effect_id=effect_id, claim_id=claim, phase=phase, result=pick, error="e"))

    def _settle(self, pick: int) -> None:
        verdicts = [
            cmd.Verdict(effect_id=row.effect_id, found=("found", "absent", "unsure")[(pick + n) % 3])
            for n, row in enumerate(self.session.state.effects)
        ]
        self.send(cmd.Settle(fence=self._fence(pick), verdicts=verdicts[: 1 + pick % 4]))

    def _give(self, pick: int) -> None:
        session = self.session
        bound = session.bound()
        kinds = (
            DoneReturn(**bound, output={"go": ("x", "y", "z")[pick % 5 % 3], "n": pick}),
            NeedsInputReturn(
                **bound, questions=[Question(id=one, text="?") for one in ("q1", "q2")[: 1 + pick % 2]]
            ),
            RefusedReturn(**bound, reason="no"),
            EscalateReturn(**bound, reason="help"),
        )
        body = session.body().body if pick % 11 == 0 else encode(kinds[pick % 10 % 4]).decode()
        self.send(cmd.Give(fence=self._fence(pick), body=body if pick % 13 else "junk"))

    def _fail(self, pick: int) -> None:
        self.send(cmd.Fail(fence=self._fence(pick), problem="boom"))

    def _answer(self, pick: int) -> None:
        state = self.session.state
        asked = state.questions[pick % len(state.questions)] if state.questions else None
        attempt, name = (asked.attempt, asked.id) if asked else (1, "q1")
        step = state.step if pick % 5 else max(1, state.step - 1)
        self.send(cmd.Answer(step=step, attempt=attempt, id=name, value=pick), ANN)

    def _resolve(self, pick: int) -> None:
        state = self.session.state
        number = max(1, state.tickets_opened)
        actions: list[Resolution] = _CANCEL
        if state.tickets:
            ticket = state.tickets[pick % len(state.tickets)]
            number = ticket.ticket_no
            if pick % 17:
                actions = [one for one in ticket.actions if one != "cancel"]
        resolution = actions[pick // 3 % len(actions)]
        value: Any = {
            "answer": {one.id: pick for one in state.questions if not one.answered},
            "edit": {"order": "o", "cents": 1 + pick % 4},
            "complete": {"go": ("x", "y", "z")[pick % 3], "n": pick},
            "redirect": ("a", "b", "c")[pick % 3],
            "send-back": "better",
        }.get(resolution)
        by = BOB if pick % 4 else (ANN, AGENT)[pick % 2]
        held = self._lease(number, by)
        found = state.ticket(number)
        version = found.version if found and pick % 19 else 1
        body = cmd.Resolve(ticket_no=number, version=version, lease=held, resolution=resolution, value=value)
        self.send(body, by)

    def _lease(self, number: int, by: str) -> str:
        """The lease under which somebody holds a ticket, if they do."""
        ticket = self.session.state.ticket(number)
        holder = ticket.holder if ticket else None
        return holder.claim_id if holder and holder.by == by else ""

    def _desk(self, pick: int) -> None:
        """Do something with a ticket beside deciding it; most of the time as it stands."""
        state = self.session.state
        ticket = state.tickets[pick % len(state.tickets)] if state.tickets else None
        number = ticket.ticket_no if ticket else max(1, state.tickets_opened)
        version = ticket.version if ticket and pick % 11 else 1
        by = (BOB, CLERK, BOB, ANN)[pick % 4]
        lease = self._lease(number, by) if pick % 7 else "lease-0"
        name, take_over = f"lease-{len(self.sent)}", pick % 3 == 0
        seen: dict[str, Any] = {"ticket_no": number, "version": version}
        bodies: list[cmd.Body] = [
            cmd.ClaimTicket(**seen, claim_id=name, take_over=take_over, reason="r" * (pick % 2)),
            cmd.ClaimTicket(**seen, claim_id=name),
            cmd.ExtendTicket(ticket_no=number, lease=lease, seen_until=pick),
            cmd.ReleaseTicket(ticket_no=number, lease=lease),
            cmd.ReassignTicket(**seen, to=(CLERK, ANN, AGENT)[pick % 3], claim_id=name),
            cmd.ReassignTicket(**seen, to_queue=("boss", "operators", "elsewhere")[pick % 3]),
            cmd.SnoozeTicket(**seen, for_ms=1 + pick * 100),
            cmd.WakeTicket(**seen),
            cmd.CommentTicket(ticket_no=number, comment_id=name, text="hm"),
            cmd.AlertTicket(**seen, why="w"),
        ]
        self.send(bodies[pick % len(bodies)], by)

    def _cancel(self, pick: int) -> None:
        if pick % 8 == 0:
            self.send(cmd.Cancel(seen=self.session.state.seq), ANN)

    def _pause(self, pick: int) -> None:
        for_ms = 500 if pick % 2 else None
        self.send(cmd.Pause(seen=self.session.state.seq, for_ms=for_ms), ANN)

    def _resume(self, pick: int) -> None:
        self.send(cmd.Resume(seen=self.session.state.seq), ANN)

    def _retry(self, pick: int) -> None:
        self.send(cmd.Retry(seen=self.session.state.seq), ANN)

    def _lose(self, pick: int) -> None:
        fence = self._fence(pick)
        self.send(cmd.Due(kind="lease", subject=fence.claim_id, due_at=0), TICK)

    def _due(self, pick: int) -> None:
        waits = dues(self.session.state)
        if waits:
            one = waits[pick % len(waits)]
            if pick % 4:
                self.session.at = max(self.session.at, one.at)
            self.send(cmd.Due(kind=one.kind, subject=one.subject, due_at=one.at), TICK)

    def _time(self, pick: int) -> None:
        # Back, too: a clock may jump.
        self.session.tick(pick * 3 - 500)

    def _withdraw(self, pick: int) -> None:
        """A newer plan withdraws a tool and adds a constraint."""
        plan = self.session.plan
        stages_ = {
            name: replace(one, tools=one.tools[pick % 3 :], constraints=["new"])
            for name, one in plan.stages.items()
        }
        self.session.newest = replace(plan, version=2, stages=stages_) if pick % 2 else None


ANY = [
    "claim", "give", "intend", "report", "settle", "resolve", "answer", "due", "release", "checkpoint", "note",
    "fail", "cancel", "pause", "resume", "retry", "lose", "time", "again", "withdraw",
    "desk",
]  # fmt: skip
#: Three ops of four are read as one that the state has use for.
ops = st.tuples(st.sampled_from([*["act"] * 3 * len(ANY), *ANY]), st.integers(0, 400))
#: What a claim is used for; most of all for effects, where the rules are.
_BY_CLAIM = (
    "intend",
    "report",
    "intend",
    "report",
    "give",
    "give",
    "checkpoint",
    "lose",
    "fail",
    "release",
    "note",
)


def history(plan: Plan, played: list[Op]) -> Player:
    player = Player(plan)
    player.session.submit({"order": "o"})
    for op, pick in played:
        player.play(op, pick)
    return player


def check_history(session: Session) -> None:
    returned: Counter[tuple[int, int]] = Counter()
    claimed: Counter[tuple[int, int]] = Counter()
    done: set[str] = set()
    step = 0
    for event in session.events:
        match event:
            case ev.StageEntered():
                step = event.step
            case ev.Claimed():
                claimed[step, event.attempt] += 1
            case ev.Returned():
                returned[event.body.step, event.body.attempt] += 1
            case ev.EffectDone():
                done.add(event.effect_id)
            case ev.EffectSettled():
                (done.add if event.status == "done" else done.discard)(event.effect_id)
            case ev.EffectIntended():
                assert event.effect_id not in done, "rule 3: what is done was intended again"
            case _:
                pass
    assert max(returned.values(), default=0) <= 1, "rule 2: two returns of one attempt"
    assert max(claimed.values(), default=0) <= 1, "rule 2: two claims of one attempt"
    folded = session.refold()
    assert folded == session.state


LIMITS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@LIMITS
@given(plans(), st.lists(ops, max_size=60))
def test_rules_01_02_03_06_hold_in_any_history(plan: Plan, played: list[Op]) -> None:
    player = history(plan, played)
    check_history(player.session)


@LIMITS
@given(plans(), st.lists(ops, max_size=40))
def test_whatever_happened_a_session_can_be_called_off(plan: Plan, played: list[Op]) -> None:
    session = history(plan, played).session
    if not session.state.over:
        session.cancel()
    for _ in range(20):
        state = session.state
        if state.over:
            break
        assert state.ending
        if state.claim:
            session.lose()
        elif state.issued:
            session.claim().settle()
        else:
            freed(session).resolve("not-done", ticket=state.tickets[0].ticket_no)
    assert session.state.over
    check_history(session)


@LIMITS
@given(plans(), st.lists(ops, max_size=40))
def test_whatever_happened_a_session_can_be_brought_to_its_end(plan: Plan, played: list[Op]) -> None:
    player = history(plan, played)
    session = player.session
    for _ in range(120):
        if session.state.over:
            break
        help_on(player)
    assert session.state.over, session.state
    check_history(session)


def help_on(player: Player) -> None:
    """Do what whoever is waited for would do."""
    session = player.session
    state = session.state
    if state.paused:
        session.resume()
    elif state.claim and state.settling():
        session.settle()
    elif state.claim and state.ending:
        session.lose()
    elif state.claim:
        session.fence = Fence(step=state.step, attempt=state.attempt, claim_id=state.claim.claim_id)
        session.done({"go": "x"})
    elif state.issued:
        player.play("claim", 1)
    elif state.tickets:
        helps(session, state.tickets[0].ticket_no, state.tickets[0].actions)
    elif state.unanswered():
        question = next(one for one in state.questions if not one.answered)
        session.answer(question.id, 1, attempt=question.attempt)
    else:
        kind = dues(state)[-1].kind
        session.newest = None
        session.due(kind)


def freed(session: Session) -> Session:
    """Let whatever claims people hold on tickets run out."""
    while any(ticket.holder for ticket in session.state.tickets):
        session.due("ticket-lease")
    return session


def helps(session: Session, number: int, actions: list[Resolution]) -> None:
    freed(session)
    loops = session.state.step > 5 or session.state.tickets_opened > 30
    if "done" in actions:
        session.resolve("done", ticket=number)
    elif loops and "cancel" in actions:
        session.resolve("cancel", by=DAN, ticket=number)
    elif "approve" in actions and "send-back" in actions and number % 2:
        # It was approved, and the agent does not run it: somebody leaves it at that, some time.
        session.resolve("deny", by=DAN, ticket=number)
    elif "approve" in actions:
        ticket = session.state.ticket(number)
        by = next(one for one in (BOB, CLERK, DAN) if not ticket or one not in ticket.approved_by)
        session.resolve("approve", by=by, ticket=number)
    elif "answer" in actions:
        asked = {one.id: 1 for one in session.state.questions if not one.answered}
        session.resolve("answer", asked, ticket=number)
    else:
        session.resolve("complete", {"go": "x"}, ticket=number)
