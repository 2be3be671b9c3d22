"""How a runtime works, as numbers."""

from dataclasses import dataclass, fields

from passdown.contracts.errors import ContractError


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a runtime works. Seconds and counts, all more than zero; the ``linger`` ones may be zero."""

    #: How long a drain waits before it looks once more into a queue that it found empty.
    linger_seconds: float = 0.05
    #: Where it looks more than once in that time: how soon for the first time (zero: once, at the end).
    linger_look_seconds: float = 0.0
    #: How long a drain takes new packs; it ends once those that it took have ended.
    turn_seconds: float = 30.0
    #: After how many takes that brought packs the turn of a plain agent's drain ends as well, where other roles may
    #: wait for its slot; that of an async agent has twice its slots (zero: any number).
    turn_takes: int = 0
    #: How often a drain with free slots looks into the queue while its async agents run.
    poll_seconds: float = 1.0
    #: Packs that one drain runs at once where its agent is async.
    async_slots: int = 500
    #: Threads for gateway calls of async agents, and for plain tools that they call.
    gateway_threads: int = 32
    tool_threads: int = 32
    #: How long a `verify` may take.
    verify_seconds: float = 30.0
    #: How long an async agent may go on after its claim ended, and again after it was cancelled.
    cancel_grace_seconds: float = 5.0
    #: The backoff of a pack that this worker cannot run.
    hand_back_seconds: float = 5.0
    #: How long a solo pack waits for its neighbours in this process to end.
    solo_wait_seconds: float = 5.0
    #: How long a call of the gateway is retried while that is unavailable.
    patience_seconds: float = 30.0

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            least = value >= 0 if one.name.startswith(("linger", "turn_takes")) else value > 0
            if not least or value == float("inf"):
                raise ContractError(
                    f"option {one.name}", f"expected a finite number above zero, got {value!r}"
                )
