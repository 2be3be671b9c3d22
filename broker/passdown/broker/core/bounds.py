"""How much of a session stays in its state (rule 12, DESIGN §5); the log has the rest.

A fact is never refused for its size: each kind of fact has a share of the state, and what is oldest
leaves it. What somebody asks for (a checkpoint, an effect, an answer, an output) is refused where the
state would be larger than ``ASKED_LIMIT``; so the facts that may follow still fit into ``STATE_BUDGET``.
All sizes are bytes of canonical JSON.
"""

from collections.abc import Sequence
from typing import TypeVar

from passdown.broker.core.state import State
from passdown.contracts.codec import KIB, PACK_BUDGET, RETURN_BUDGET, STATE_BUDGET, encode
from passdown.contracts.errors import BudgetExceeded

T = TypeVar("T")

#: Reading calls of a step: how many, and how much.
READS_KEPT, READS_BYTES = 32, 24 * KIB
#: Why attempts of a step did not count.
FEEDBACK_KEPT, FEEDBACK_BYTES = 8, 8 * KIB
#: Answers of earlier rounds of questions in a step.
ANSWERS_KEPT, ANSWERS_BYTES = 32, 12 * KIB
#: Arguments and results of effects that have ended.
LEDGER_BYTES = 12 * KIB
#: The questions of one return; a larger return breaks its contract.
QUESTIONS_BYTES = 12 * KIB
#: An answer up to this size is taken however full the state is, so that nobody waits for ever.
SMALL_ANSWER = KIB
#: What the inputs of a session grow to, with the outputs of its stages laid over them.
DATA_LIMIT = 2 * PACK_BUDGET
#: The last tickets of which the state says how they ended.
DECIDED_KEPT = 16
#: Arguments of an effect stay in the state while it is open, so they are small; bulk goes by reference.
ARGS_BUDGET = 32 * KIB

_MOST_QUESTIONS = 20
ASKED_LIMIT = (
    STATE_BUDGET
    - RETURN_BUDGET
    - READS_BYTES
    - FEEDBACK_BYTES
    - LEDGER_BYTES
    - QUESTIONS_BYTES
    - _MOST_QUESTIONS * SMALL_ANSWER
    - 4 * KIB
)


def newest(items: Sequence[T], most: int, size: int) -> list[T]:
    """Return the last of `items`, at most `most` of them and `size` bytes, in their order."""
    kept: list[T] = []
    for item in reversed(items[-most:]):
        size -= len(encode(item))
        if size < 0:
            break
        kept.append(item)
    kept.reverse()
    return kept


def require_room(state: State, what: str, limit: int = ASKED_LIMIT) -> None:
    """Raise BudgetExceeded where the state, with `what` in it already, is larger than `limit`."""
    size = len(encode(state))
    if size <= limit:
        return
    parts = {
        name: len(encode(getattr(state, name)))
        for name in ("data", "snapshot", "effects", "questions", "reads")
    }
    largest = dict(sorted(parts.items(), key=lambda item: -item[1])[:3])
    raise BudgetExceeded(f"session state with this {what}", size, limit, largest)
