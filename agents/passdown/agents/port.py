"""The gateway as the runtime uses it: retried while it is unavailable, and with named points to hook into."""

from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

import stamina

from passdown.contracts.errors import Unavailable
from passdown.contracts.gateway import Gateway
from passdown.contracts.pack import Pack

T = TypeVar("T")

Verb = Literal["take", "claim", "intent", "report", "checkpoint", "give"]
HookPoint = Literal[
    "before_take",
    "after_take",
    "before_claim",
    "after_claim",
    "before_intent",
    "after_intent",
    "before_write",
    "after_write",
    "before_report",
    "after_report",
    "before_checkpoint",
    "after_checkpoint",
    "before_give",
    "after_give",
]


class Hooks(Protocol):
    """Called before and after each thing that cannot be undone; does nothing by default.

    For tests of faults: a hook that kills its process at a point shows what is left behind there. ``after_``
    points come only where the act succeeded. `pack` is None for takes. What a hook raises ends the act as
    if the act had raised it.
    """

    def __call__(self, point: HookPoint, pack: Pack | None, /) -> None:
        """Act at `point`, or not."""
        ...


def no_hooks(point: HookPoint, pack: Pack | None, /) -> None:
    """Do nothing."""


_POINTS: dict[Verb, tuple[HookPoint, HookPoint]] = {
    "take": ("before_take", "after_take"),
    "claim": ("before_claim", "after_claim"),
    "intent": ("before_intent", "after_intent"),
    "report": ("before_report", "after_report"),
    "checkpoint": ("before_checkpoint", "after_checkpoint"),
    "give": ("before_give", "after_give"),
}


class Port:
    """A gateway, how patient to be with it (seconds), and hooks around what is done through it."""

    def __init__(self, gateway: Gateway, *, hooks: Hooks = no_hooks, patience_seconds: float = 30.0) -> None:
        self.gateway = gateway
        self.hook = hooks
        self._patience = patience_seconds

    def commit(self, verb: Verb, pack: Pack | None, act: Callable[[], T]) -> T:
        """Do `act`, a call of the gateway, between the hook points of `verb`, with retries."""
        before, after = _POINTS[verb]
        self.hook(before, pack)
        done = self.retried(act)
        self.hook(after, pack)
        return done

    def commit_all(self, verb: Verb, packs: list[Pack], act: Callable[[], T]) -> T:
        """Do `act`, a call of the gateway for several packs, between the hook points of `verb` for each."""
        before, after = _POINTS[verb]
        for pack in packs:
            self.hook(before, pack)
        done = self.retried(act)
        for pack in packs:
            self.hook(after, pack)
        return done

    def retried(self, act: Callable[[], T]) -> T:
        """Do `act`; while the gateway is unavailable again with jittered waits, then raise Unavailable.

        Every act of the gateway is idempotent by what it does, so a lost reply is safe to ask for again.
        """
        try:
            return act()
        except Unavailable:
            pass
        waits = stamina.retry_context(
            on=Unavailable,
            attempts=None,
            timeout=self._patience,
            wait_initial=0.05,
            wait_max=2.0,
            wait_jitter=0.2,
        )
        for attempt in waits:
            with attempt:
                return act()
        raise AssertionError("unreachable: stamina raises the last error")
