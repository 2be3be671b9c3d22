"""Agents that are heavy or unsafe: they hold the interpreter or the event loop, hear nothing, or end their process."""

import asyncio
import ctypes
import os
import signal
import time
from pathlib import Path
from typing import Any

from passdown.agents import Context, Done, Pack, SyncContext, agent

#: Calls of the C library that do not let go of the interpreter meanwhile.
_holding = ctypes.PyDLL(None)


def _began(pack: Pack) -> Path:
    """Say that this attempt runs, and in which process; returns the file that lets it go on."""
    folder = Path(pack.inputs["folder"])
    (folder / f"{pack.session_id}-{pack.attempt}").write_text(str(os.getpid()))
    return folder / "go-on"


@agent("stubborn")
def stubborn(pack: Pack, ctx: SyncContext) -> Any:
    """Wait for a file, whatever else happens; the second attempt does not."""
    go_on = _began(pack)
    while pack.attempt == 1 and not go_on.exists():
        time.sleep(0.02)
    return Done({"attempt": pack.attempt})


@agent("blocker")
async def blocker(pack: Pack, ctx: Context) -> Any:
    """The same on the event loop, which it blocks."""
    go_on = _began(pack)
    while pack.attempt == 1 and not go_on.exists():
        time.sleep(0.02)  # noqa: ASYNC251 - that is what this is for
    return Done({"attempt": pack.attempt})


@agent("deaf")
async def deaf(pack: Pack, ctx: Context) -> Any:
    """The same without blocking, but it hears no cancellation."""
    go_on = _began(pack)
    while pack.attempt == 1 and not go_on.exists():
        try:
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            continue
    return Done({"attempt": pack.attempt})


@agent("holder")
def holder(pack: Pack, ctx: SyncContext) -> Any:
    """Hold the interpreter for a while at the first attempt, then write once."""
    _began(pack)
    if pack.attempt == 1:
        _holding.usleep(int(pack.inputs["seconds"] * 1_000_000))
    ctx.call("mail.send", order="held")
    return Done({"attempt": pack.attempt})


@agent("exiter")
def exiter(pack: Pack, ctx: SyncContext) -> Any:
    """End its process as its inputs say, as often as they say."""
    _began(pack)
    if pack.attempt > pack.inputs.get("times", 100):
        return Done({"attempt": pack.attempt})
    how = pack.inputs["how"]
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "segfault":
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    os._exit(3)


@agent("quick")
def quick(pack: Pack, ctx: SyncContext) -> Any:
    """Say in which process it ran."""
    return Done({"pid": os.getpid()})
