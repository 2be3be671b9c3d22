"""One held claim from the worker's side: what rides in its commits, and whether it may still go on.

Thread-safe: an agent's own threads may call its context, and the lease is watched from another thread.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import structlog
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from passdown.agents.jsonable import as_json
from passdown.agents.port import Port
from passdown.agents.tools import AnyTool
from passdown.contracts import ids
from passdown.contracts.codec import INLINE_LIMIT, clean_text, digest, encode
from passdown.contracts.commands import ToolNote
from passdown.contracts.errors import ContractError, Denied, Fenced, Unavailable
from passdown.contracts.gateway import Claim
from passdown.contracts.pack import Pack, PackTool

#: Notes of reading calls that wait for the next commit; one more flushes them.
NOTES_WAITING = 50
#: Notes that are kept at most where commits are refused again and again.
NOTES_KEPT = 4 * NOTES_WAITING
#: A commit that ends with one of these took its notes along, or the claim is over; with any other it did not.
SPENT = (Denied, Fenced, Unavailable)


@dataclass(frozen=True, slots=True)
class Noted:
    """A note that waits for a commit, and when it was made (monotonic seconds)."""

    note: ToolNote
    at: float


class ActiveClaim:
    """A held claim: pack, fence, counters of effects, waiting notes, and why it ended once it did."""

    def __init__(self, pack: Pack, claim: Claim, tools: dict[str, AnyTool], port: Port) -> None:
        self.pack = pack
        self.claim = claim
        self.tools = tools
        self.port = port
        self.granted: dict[str, PackTool] = {one.name: one for one in pack.tools}
        self.snapshot: Any = pack.snapshot.data if pack.snapshot else None
        self.suspended = False
        #: Set where the store stayed away for longer than its retries: the drain ends (DESIGN §11).
        self.unavailable: Unavailable | None = None
        self._ended: Fenced | None = None
        self._on_end: Callable[[], object] | None = None
        self._lock = threading.Lock()
        self._counters: dict[str, int] = dict(pack.snapshot.counters) if pack.snapshot else {}
        self._notes: list[Noted] = []
        self._number = 0

    @cached_property
    def log(self) -> FilteringBoundLogger:
        """A logger that names the session, the step and the attempt."""
        return log_of(self.pack)

    # Whether it may go on

    @property
    def ended(self) -> Fenced | None:
        """Why this claim is over, or None while it is held."""
        return self._ended

    def end(self, why: str) -> None:
        """Say that the claim is over: each verb raises Fenced from here on. The first reason stays."""
        with self._lock:
            if self._ended is None:
                self._ended = Fenced(str(self.claim.fence), "unknown here", why)
            told, self._on_end = self._on_end, None
        if told:
            told()

    def when_ended(self, told: Callable[[], object]) -> None:
        """Have `told` called once the claim is over: at once if it is, and from any thread."""
        with self._lock:
            if self._ended is None:
                self._on_end = told
                return
        told()

    def require_held(self) -> None:
        """Raise Fenced where the claim is over, Unavailable where the store is."""
        if self.unavailable:
            raise Unavailable(self.unavailable.what, self.unavailable.why)
        if self._ended:
            raise Fenced(*self._ended.args)

    # What rides in its commits

    def count(self, tool: str, identity: dict[str, Any]) -> tuple[str, int, dict[str, int]]:
        """Count one more call of `tool` with `identity`; return its effectId, its n, and the counters by then."""
        key = counter_key(tool, identity)
        with self._lock:
            n = self._counters[key] = self._counters.get(key, 0) + 1
            counters = dict(self._counters)
        return ids.effect_id(self.pack.session_id, self.pack.step, tool, identity, n), n, counters

    def uncount(self, tool: str, identity: dict[str, Any], n: int) -> None:
        """Take back the count of a call that the broker refused, unless another one was counted since."""
        key = counter_key(tool, identity)
        with self._lock:
            if self._counters.get(key) == n:
                self._counters[key] = n - 1
                if n == 1:
                    del self._counters[key]

    def counters(self) -> dict[str, int]:
        """Return the counters of the effects of this run."""
        with self._lock:
            return dict(self._counters)

    def note(self, note: ToolNote) -> None:
        """Keep a note for the next commit."""
        with self._lock:
            self._notes.append(Noted(note, time.monotonic()))

    @property
    def crowded(self) -> bool:
        """Whether so many notes wait that they should be flushed."""
        return len(self._notes) > NOTES_WAITING

    def deny(self, tool: str, why: str) -> None:
        """Note a call that the stage does not grant."""
        self.note(ToolNote(tool=clean_text(tool, 200), args=None, denied=clean_text(why)))

    def next_number(self) -> int:
        """Return the number of the next checkpoint or notes commit, from 1."""
        with self._lock:
            self._number += 1
            return self._number

    def commit(self, act: Callable[[list[ToolNote]], Any]) -> Any:
        """Do `act`, a commit of this claim, with the waiting notes; what its errors say about the claim is kept."""
        taken = self.take_notes()
        try:
            return self.watched(lambda: act(aged(taken)))
        except SPENT:
            raise
        except Exception:
            self.keep_notes(taken)
            raise

    def take_notes(self) -> list[Noted]:
        """Return the waiting notes, for a commit that takes them along."""
        with self._lock:
            taken, self._notes = self._notes, []
        return taken

    def keep_notes(self, taken: list[Noted]) -> None:
        """Have notes wait again, whose commit was refused."""
        with self._lock:
            self._notes = [*taken, *self._notes][-NOTES_KEPT:]

    def watched(self, act: Callable[[], Any]) -> Any:
        """Do `act`; a Fenced or Unavailable that it raises is remembered before it goes on."""
        try:
            return act()
        except Fenced as error:
            self.end(error.why or str(error))
            raise
        except Unavailable as error:
            self.unavailable = error
            raise

    def flush(self) -> None:
        """Record the waiting notes by themselves."""
        number = self.next_number()
        gateway = self.port.gateway
        self.commit(lambda notes: self.port.retried(lambda: gateway.tool(self.claim, number, notes)))


def log_of(pack: Pack) -> FilteringBoundLogger:
    """Return a logger that names the handoff."""
    return structlog.get_logger("passdown.agents").bind(
        session=pack.session_id, step=pack.step, attempt=pack.attempt, stage=pack.stage, role=pack.role
    )


def counter_key(tool: str, identity: dict[str, Any]) -> str:
    """Return the key under which calls of equal identity are counted (DESIGN §6)."""
    return f"{tool}:{ids.identity_digest(identity)}"


def read_note(tool: str, args: dict[str, Any], result: object) -> ToolNote:
    """Return the note of a reading call; its result is kept where it is small and JSON."""
    try:
        data = as_json(result, what="result")
        raw = encode(data)
    except ContractError:
        return ToolNote(tool=tool, args=args)
    small = len(raw) <= INLINE_LIMIT and len(encode(args)) <= INLINE_LIMIT
    return ToolNote(
        tool=tool, args=args, result_digest=digest(raw), result=data if small else None, kept=small
    )


def aged(taken: list[Noted]) -> list[ToolNote]:
    """Return notes as they travel: each says how old it is."""
    now = time.monotonic()
    return [replace(one.note, age_ms=int((now - one.at) * 1000)) for one in taken]
