"""Every error that Passdown raises on purpose, in one tree.

::

    PassdownError
    ├── ContractError        a message, pack, return or setting does not fit its contract
    │   └── BudgetExceeded   it fits, but is larger than its budget
    ├── PlanError            a plan, a stage, a tool or a schema is wrong or gone
    ├── Conflict             somebody was first: names the winner
    ├── Fenced               not the current fence
    ├── Denied               no grant, or a tool that the stage does not grant
    │   └── Unauthenticated  nobody knows who asks: no token, or one that is not, or no longer, good
    ├── NotFound             no such session, ticket, question, effect, plan …
    └── Unavailable          the store or the queue does not answer; a retry is safe
        └── QueueFull        so many packs wait for a role that no new session may add one

Facts are attributes; the sentence is built in ``__str__`` and says what was expected, what came, and
what to do. ``code`` is stable and is what other programs should look at; ``exit_code`` is the exit
status of the command line. ``args`` are the facts as the class takes them, so that every error can be
copied, pickled and made again elsewhere.
"""

from typing import ClassVar


class PassdownError(Exception):
    """The base of all errors that Passdown raises on purpose."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1


class ContractError(PassdownError):
    """A message does not fit its contract. Nothing was changed; mend the named field and send it again."""

    code = "contract"
    exit_code = 2

    def __init__(self, what: str, problem: str, pointer: str = "") -> None:
        super().__init__(what, problem, pointer)
        self.what = what
        self.problem = problem
        self.pointer = pointer

    def __str__(self) -> str:
        where = f" at {self.pointer}" if self.pointer else ""
        return f"{self.what} does not fit its contract{where}: {self.problem}"


class BudgetExceeded(ContractError):
    """A message is larger than its budget. Pass bulk as a resource (name, uri, digest), not inline."""

    code = "budget"

    def __init__(self, what: str, size: int, budget: int, largest: dict[str, int] | None = None) -> None:
        self.size = size
        self.budget = budget
        self.largest = largest or {}
        super().__init__(what, f"{size} bytes, the budget is {budget}")
        self.args = (what, size, budget, self.largest)

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {size}" for name, size in self.largest.items())
        detail = f" (largest fields: {sizes})" if sizes else ""
        return (
            f"{self.what} has {self.size} bytes, its budget is {self.budget}{detail};"
            " pass bulk as a resource with its uri and digest"
        )


class PlanError(PassdownError):
    """A plan cannot be used. Each fault says where it stands and how to mend it."""

    code = "plan"
    exit_code = 2

    def __init__(self, plan: str, faults: list[str]) -> None:
        super().__init__(plan, faults)
        self.plan = plan
        self.faults = faults

    def __str__(self) -> str:
        if len(self.faults) == 1:
            return f"plan {self.plan}: {self.faults[0]}"
        lines = "\n".join(f"  {n}. {fault}" for n, fault in enumerate(self.faults, 1))
        return f"plan {self.plan} has {len(self.faults)} faults:\n{lines}"


class Conflict(PassdownError):
    """Somebody was first. Load again, look at what was decided, and decide anew."""

    code = "conflict"
    exit_code = 4

    def __init__(self, what: str, winner: str = "", decided: str = "") -> None:
        super().__init__(what, winner, decided)
        self.what = what
        self.winner = winner
        self.decided = decided

    def __str__(self) -> str:
        by = f"; {self.winner} was first" if self.winner else ""
        outcome = f" ({self.decided})" if self.decided else ""
        return f"{self.what}{by}{outcome}"


class Fenced(PassdownError):
    """The claim that this carries is not the current one. Stop working on it: another attempt owns it."""

    code = "fenced"
    exit_code = 4

    def __init__(self, given: str, current: str, why: str = "") -> None:
        super().__init__(given, current, why)
        self.given = given
        self.current = current
        self.why = why

    def __str__(self) -> str:
        reason = f" ({self.why})" if self.why else ""
        return f"fence {self.given} is not the current one, which is {self.current}{reason}; stop this work"


class Denied(PassdownError):
    """No grant covers this. Ask for the grant, or take another way."""

    code = "denied"
    exit_code = 5

    def __init__(self, who: str, what: str, why: str) -> None:
        super().__init__(who, what, why)
        self.who = who
        self.what = what
        self.why = why

    def __str__(self) -> str:
        return f"{self.who} may not {self.what}: {self.why}"


class Unauthenticated(Denied):
    """Nobody knows who asks. Bring a token that is good: `passdown token create` makes one."""

    code = "unauthenticated"

    def __init__(self, what: str, why: str) -> None:
        super().__init__("nobody known", what, why)
        self.args = (what, why)

    def __str__(self) -> str:
        return f"cannot {self.what}: {self.why}"


class NotFound(PassdownError):
    """There is nothing under this name. Check the identifier, and which store you are connected to."""

    code = "not-found"
    exit_code = 3

    def __init__(self, kind: str, name: str, hint: str = "") -> None:
        super().__init__(kind, name, hint)
        self.kind = kind
        self.name = name
        self.hint = hint

    def __str__(self) -> str:
        hint = f"; {self.hint}" if self.hint else ""
        return f"there is no {self.kind} {self.name!r}{hint}"


class Unavailable(PassdownError):
    """The store or the queue does not answer. Nothing is known to be lost; retrying is safe."""

    code = "unavailable"
    exit_code = 6

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what, why)
        self.what = what
        self.why = why

    def __str__(self) -> str:
        return f"{self.what} is unavailable: {self.why}; a retry is safe"


class QueueFull(Unavailable):
    """Too many packs wait for a role. Start more workers for it, submit less, or raise `queue_limit`."""

    code = "queue-full"

    def __init__(self, role: str, waiting: int, limit: int) -> None:
        super().__init__(f"the queue of role {role}", f"{waiting} packs wait, the limit is {limit}")
        self.args = (role, waiting, limit)
        self.role = role
        self.waiting = waiting
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"{self.what} is full: {self.why}; submit again when workers have caught up, or raise queue_limit"
        )
