"""Sessions that flow all the while a test does harm, and what each of them must show in the end.

::

    with Flow(site) as flow:
        flow.worker(), flow.worker(), flow.tick()
        flow.warm()
        server.kill()
        server.start()
        flow.recovered("Redis killed")  # waits; how long it took is printed
        flow.finish()  # every session at its end or with a person, each effect once, each log whole
"""

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from msgspec.structs import replace

from passdown.broker.cli.views.transitions import prove
from passdown.broker.client import Session
from passdown.broker.gateway import Limits
from passdown.broker.worker import WorkerSpec
from passdown.contracts.codec import decode, encode
from passdown.contracts.errors import Unavailable
from passdown.contracts.events import EffectIntended
from passdown.contracts.plans import Grant, Next, Plan
from tests.integration.proof import arrived, assert_sound
from tests.integration.site import LEASE_S, Site, stage, types, wait_until

ROLES = ["finder", "payer", "poster"]
DESK = str(Path(__file__).with_name("flow_desk.py"))

#: A session is submitted so often (seconds).
EVERY_S = 0.1
#: A reservation that nobody claims ends so soon, where the real setting is ten seconds.
CLAIM_BY_MS = 1_500
#: Within so many seconds all is well again, whatever it was; most of it is one lease, and the tick's next ring.
WITHIN_S = 30.0
#: Where a session may rest.
AT_REST = ("done", "waiting-human")


def say(text: str) -> None:
    """Print a line, for whoever asks for what tests said (`pytest -rP`)."""
    sys.stdout.write(f"{text}\n")


def clock(ahead: str) -> tuple[str, ...]:
    """Return what goes before a command whose clock on the wall is ahead, by ``+1h`` or ``-60s``."""
    return ("env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "faketime", "-f", ahead)


def flowing_plan(lease_s: float = LEASE_S) -> Plan:
    """Find, pay, post: two writes, of which the second absorbs no repeat and cannot be looked for."""
    some = {"max_attempts": 20, "recovery": "continue", "lease_seconds": lease_s}
    return Plan(
        name="flowing",
        start="find",
        stages={
            "find": stage("finder", tools=[Grant(tool="orders.find")], next=Next(to="pay"), **some),
            "pay": stage("payer", tools=[Grant(tool="refunds.pay")], next=Next(to="post"), **some),
            "post": stage("poster", tools=[Grant(tool="letters.post")], **some),
        },
    )


class Recovered(NamedTuple):
    """How long it took after harm was over (seconds): until a new session was done, and until all open ones were."""

    what: str
    works_s: float
    all_s: float


class Flow:
    """Submits a session every now and then, from a thread, whatever happens; each under a key, until it is in."""

    def __init__(self, site: Site, *, every_s: float = EVERY_S, lease_s: float = LEASE_S) -> None:
        self.site = site
        self._plan = flowing_plan(lease_s)
        self.sessions: list[Session] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.ticks: list[subprocess.Popen[bytes]] = []
        self.recoveries: list[Recovered] = []
        #: Submits that were tried again by the producer, for the store was away longer than the broker's patience.
        self.again = 0
        self._every_s = every_s
        self._at_rest: set[str] = set()
        self._versions: dict[str, int] = {}
        self._stop = threading.Event()
        self._faults: list[BaseException] = []
        self._lock = threading.Lock()
        self._count = 0
        self._thread = threading.Thread(target=self._produce, name="producer", daemon=True)

    def __enter__(self) -> Self:
        self.site.broker.register(self._plan)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(30)

    # -- processes --

    def worker(self, *, prefix: tuple[str, ...] = (), **more: Any) -> "subprocess.Popen[bytes]":
        """Start a worker for all roles; `more` are other values of its specification."""
        spec = decode(self.site.spec(ROLES).encode(), WorkerSpec)
        more = {"modules": [DESK], "limits": Limits(claim_by_ms=CLAIM_BY_MS), "grace_s": 1.0, **more}
        text = encode(replace(spec, **more)).decode()
        self.workers.append(self.site.start("passdown.broker.worker", text, prefix=prefix))
        return self.workers[-1]

    def tick(self, prefix: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
        """Start a tick."""
        self.ticks.append(self.site.tick(prefix))
        return self.ticks[-1]

    def kill(self, process: "subprocess.Popen[bytes]", number: int = signal.SIGKILL) -> None:
        """End a worker or a tick; all others must be there in the end."""
        for some in (self.workers, self.ticks):
            if process in some:
                some.remove(process)
        self.site.kill(process, number)

    def freeze(self, worker: "subprocess.Popen[bytes]") -> None:
        """Stop a worker at its work until a lease of it is declared lost; it is for the caller to let it go on."""
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            worker.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
            held = [one for one in self._open() if one.state().claim]
            lost = self.seen("LeaseLost", held)
            while time.monotonic() < stopped + 2 * LEASE_S:
                if self.seen("LeaseLost", held) > lost:
                    return
                self.pass_by(0.2)
            worker.send_signal(signal.SIGCONT)  # it had nothing in hand
            self.pass_by(0.2)
        raise AssertionError("it never holds anything")

    # -- the flow --

    def warm(self) -> None:
        """Wait until the pool works, then begin to submit all the time."""
        first = self.submit()
        wait_until(lambda: self._rests(first), "the pool works", 60)
        self._thread.start()

    def submit(self) -> Session:
        """Submit one session; again under its key where the store stays away."""
        with self._lock:
            key = f"flow-{self._count}"
            self._count += 1
        while True:
            try:
                session = self.site.broker.submit("flowing", inputs={"order": key}, key=key)
            except Unavailable:
                self.again += 1
                if self._stop.is_set():
                    raise
            else:
                self.sessions.append(session)
                return session

    def _produce(self) -> None:
        try:
            while not self._stop.wait(self._every_s):
                self.submit()
        except BaseException as error:  # noqa: BLE001 - the test's thread raises it
            self._faults.append(error)

    def pass_by(self, seconds: float) -> None:
        """Let sessions flow for so long: that is the load."""
        if self._stop.wait(seconds):
            raise AssertionError("nothing flows any more")

    # -- looking --

    def _open(self) -> list[Session]:
        """Return the sessions that are not at rest; raises where one ended as it must not."""
        if self._faults:
            raise self._faults[0]
        rows = self.site.broker.sessions(limit=1000)
        for row in rows:
            assert row.version >= self._versions.get(row.session_id, 0), f"{row.session_id} was put back"
            self._versions[row.session_id] = row.version
        found = {row.session_id: row.status for row in rows}
        looked = [one for one in list(self.sessions) if one.id not in self._at_rest]
        for one in looked:
            status = found.get(one.id) or one.status()
            if status in AT_REST:
                self._at_rest.add(one.id)
            assert status not in ("failed", "refused", "expired", "cancelled"), (one.id, status)
        return [one for one in looked if one.id not in self._at_rest]

    def _rests(self, session: Session) -> bool:
        try:
            return session not in self._open()
        except Unavailable:
            return False

    def seen(self, kind: str, sessions: list[Session] | None = None) -> int:
        """Return how many events of a type the logs of some sessions hold, of all if none are named."""
        return sum(types(one).count(kind) for one in (list(self.sessions) if sessions is None else sessions))

    def recovered(self, what: str, within_s: float) -> Recovered:
        """The harm is over now: wait until a session that is submitted from now on is done, and all before it."""
        began = time.monotonic()
        before = list(self.sessions)
        probe = self.submit()
        self._wait([probe], f"{what}: a new session is done", within_s)
        works_s = time.monotonic() - began
        self._wait(before, f"{what}: all {len(before)} sessions are done", within_s)
        took = Recovered(what, works_s, time.monotonic() - began)
        self.recoveries.append(took)
        say(f"recovered | {what} | {took.works_s:.1f} s | {took.all_s:.1f} s")
        return took

    def _wait(self, sessions: list[Session], what: str, within_s: float) -> None:
        ends = time.monotonic() + within_s
        left = sessions
        while left:
            try:
                still = {one.id for one in self._open()}
                left = [one for one in left if one.id in still]
            except Unavailable:
                pass
            if left and time.monotonic() > ends:
                said = [f"{one.id} {one.status()}" for one in left[:5]]
                raise AssertionError(
                    f"after {within_s:g} s still not: {what}; {said}\n{self.site.log()[-3000:]}"
                )
            time.sleep(0.05)

    # -- the end --

    def finish(self, *, within_s: float = 30.0) -> Counter[str]:
        """Stop submitting, wait for all, end all processes, and look at each session; returns how many ended how."""
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive(), "the producer hangs"
        self._at_rest.clear()  # what a thawed worker told may have moved a session on
        self._wait(list(self.sessions), f"all {len(self.sessions)} sessions are done", within_s)
        assert [one.args for one in (*self.workers, *self.ticks) if one.poll() is not None] == []
        self.site.end()
        journal = arrived(self.site.outside)
        ended = Counter(self._prove(session, journal) for session in self.sessions)
        assert not journal, f"nobody intended these: {list(journal)[:5]}"
        say(f"ended | {dict(ended)}")
        return ended

    def _prove(self, session: Session, journal: dict[str, list[bool]]) -> str:
        """Hold one session to the rules, and take what it wrote out of the journal; returns its status."""
        proof = prove(self.site.broker.app.store, session.id)
        assert proof.holds, (session.id, proof.problems)
        assert_sound(session)
        state = session.state()
        intended = Counter(
            one.event.effect_id for one in session.events() if isinstance(one.event, EffectIntended)
        )
        for effect in state.effects:
            arrivals = journal.pop(effect.effect_id, [])
            about = (session.id, effect.tool, effect.status, arrivals)
            assert len(arrivals) <= intended[effect.effect_id], f"written more often than intended: {about}"
            assert sum(arrivals) == (1 if effect.status == "done" else min(len(arrivals), 1)), about
        status = session.status()
        if status == "done":
            assert [(one.tool, one.status) for one in state.effects] == [
                ("refunds.pay", "done"),
                ("letters.post", "done"),
            ]
        else:
            # A person is asked about the one write that nobody can look for, and about nothing else.
            (ticket,) = self.site.broker.tickets(session_id=session.id)
            assert (ticket.kind, state.effects[-1].tool) == ("effect", "letters.post"), ticket
            assert state.effects[-1].status == "unknown"
        return status


#: What the fixture `start_flow` is.
StartFlow = Callable[..., Flow]
