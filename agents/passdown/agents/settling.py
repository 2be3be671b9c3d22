"""Settling: no agent runs; each unknown effect's tool is asked whether it happened (DESIGN §6)."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

from passdown.agents.jsonable import as_json
from passdown.agents.outcomes import Outcome, Raised, capture, summary
from passdown.agents.threads import LoopThread
from passdown.agents.tools import Absent, AnyTool, Found, Unsure
from passdown.contracts.codec import clean_text
from passdown.contracts.commands import Verdict
from passdown.contracts.errors import ContractError
from passdown.contracts.gateway import AgentInfo
from passdown.contracts.pack import Pack, PackEffect

#: What a cancelled coroutine has to end in, beyond its time.
_SLACK_SECONDS = 0.1
#: Who holds the claim of a settle attempt.
SETTLER = AgentInfo(name="settle")


def verdicts(pack: Pack, tools: dict[str, AnyTool], loop: LoopThread, *, seconds: float) -> list[Verdict]:
    """Return a verdict for each unknown effect of `pack`; each `verify` has `seconds` to answer. Never raises."""
    return [
        _verdict(effect, tools.get(effect.tool), loop, seconds)
        for effect in pack.effects
        if effect.status == "unknown"
    ]


def _verdict(effect: PackEffect, tool: AnyTool | None, loop: LoopThread, seconds: float) -> Verdict:
    answer = _ask(effect, tool, loop, seconds)
    match answer:
        case Found():
            try:
                result = as_json(answer.result, what="result")
            except ContractError as error:
                return _unsure(effect, f"it was found, but {error}")
            return Verdict(effect_id=effect.effect_id, found="found", result=result)
        case Absent():
            return Verdict(effect_id=effect.effect_id, found="absent")
        case Unsure():
            return _unsure(effect, answer.note)
        case _:
            return _unsure(effect, f"verify answered {type(answer).__name__}, not Found, Absent or Unsure")


def _unsure(effect: PackEffect, note: object) -> Verdict:
    return Verdict(effect_id=effect.effect_id, found="unsure", note=clean_text(str(note), 500))


def _ask(effect: PackEffect, tool: AnyTool | None, loop: LoopThread, seconds: float) -> object:
    """Return what `verify` answers, Unsure where it does not."""
    if tool is None or tool.verify is None:
        return Unsure(f"{effect.tool} has no verify here")
    args: object = effect.args
    if not isinstance(args, dict):
        return Unsure("its arguments are too large to stand in the pack")
    verify = tool.verify
    try:
        keywords = tool.verify_keywords(cast(dict[str, Any], args), effect.effect_id)
    except ContractError as error:
        return Unsure(str(error))
    if tool.verify_is_async:
        ended = loop.submit(lambda: asyncio.wait_for(verify(**keywords), seconds))
    else:
        ended = _in_thread(lambda: verify(**keywords))
    try:
        outcome = ended.result(seconds + _SLACK_SECONDS)
    except TimeoutError as error:
        outcome = Raised(error)
    if isinstance(outcome, Raised):
        late = isinstance(outcome.error, TimeoutError)
        return Unsure(f"verify did not answer within {seconds:g} s" if late else summary(outcome.error))
    return outcome.value


def _in_thread(act: Callable[[], Any]) -> "Future[Outcome]":
    """Run `act` in a thread of its own, which a `verify` that never answers may keep."""
    future: Future[Outcome] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(
        target=lambda: future.set_result(capture(act)), name="passdown-verify", daemon=True
    ).start()
    return future
