import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from passdown.agents import Absent, Found, Tool, Unsure, tool
from passdown.agents.settling import verdicts
from passdown.agents.testing import make_pack
from passdown.agents.threads import LoopThread
from passdown.contracts.pack import PackEffect


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    made = LoopThread("test-loop")
    yield made
    made.stop()


def with_verify(verify: Callable[..., Any] | None) -> Tool[Any, Any]:
    @tool("mail.send", effect=True, verify=verify)
    def send(to: str, *, key: str) -> None: ...

    return send


def ask(
    loop: LoopThread, verify: Callable[..., Any] | None, args: Any = None, seconds: float = 5.0
) -> tuple[Any, ...]:
    effects = [
        PackEffect(effect_id="s.e-1", step=1, tool="mail.send", status="unknown", args=args or {"to": "a"}),
        PackEffect(effect_id="s.e-2", step=1, tool="mail.send", status="done", args={"to": "b"}),
    ]
    pack = make_pack("clerk", cause="settle", effects=effects)
    (found,) = verdicts(pack, {"mail.send": with_verify(verify)}, loop, seconds=seconds)
    assert found.effect_id == "s.e-1"
    return found.found, found.result, found.note


def answering(answer: object) -> Callable[..., Any]:
    """Return a verify that answers so."""

    def verify(**_: Any) -> Any:
        return answer

    return verify


def test_found_and_absent_and_unsure(loop: LoopThread):
    def echo(to: str, *, key: str) -> Found:
        return Found({"to": to, "key": key})

    assert ask(loop, echo) == (
        "found",
        {"to": "a", "key": "s.e-1"},
        "",
    )
    assert ask(loop, answering(Absent())) == ("absent", None, "")
    assert ask(loop, answering(Unsure("two of them"))) == ("unsure", None, "two of them")


def test_a_coroutine_may_verify(loop: LoopThread):
    async def verify(to: str, *, key: str) -> Found:
        await asyncio.sleep(0)
        return Found(to)

    assert ask(loop, verify) == ("found", "a", "")


@pytest.mark.parametrize("junk", [None, True, False, {"id": 1}, "found", Found, [Found()]])
def test_junk_is_unsure(loop: LoopThread, junk: object):
    found, result, note = ask(loop, answering(junk))
    assert (found, result) == ("unsure", None)
    assert "not Found, Absent or Unsure" in note


@pytest.mark.parametrize(
    "error", [KeyError("x"), SystemExit(1), MemoryError(), KeyboardInterrupt(), StopIteration()]
)
def test_whatever_verify_raises_is_unsure(loop: LoopThread, error: BaseException):
    def verify(**_: Any) -> Found:
        raise error

    async def verify_async(**_: Any) -> Found:
        raise error

    assert ask(loop, verify)[0] == "unsure"
    if not isinstance(error, StopIteration):
        assert ask(loop, verify_async)[0] == "unsure"
    assert ask(loop, answering(Absent()))[0] == "absent"


def test_a_verify_that_does_not_answer_is_unsure(loop: LoopThread):
    never = threading.Event()

    def wait_long(**_: Any) -> object:
        return never.wait(60)

    async def wait_for_ever(**_: Any) -> Found:
        await asyncio.sleep(3600)
        return Found()

    assert ask(loop, wait_long, seconds=0.05) == (
        "unsure",
        None,
        "verify did not answer within 0.05 s",
    )
    assert ask(loop, wait_for_ever, seconds=0.05)[0] == "unsure"
    never.set()


def test_a_found_result_that_is_not_json_is_unsure(loop: LoopThread):
    found, _, note = ask(loop, answering(Found(math.nan)))
    assert found == "unsure"
    assert "it was found, but" in note


def test_without_verify_or_arguments_nobody_knows(loop: LoopThread):
    assert ask(loop, None)[2] == "mail.send has no verify here"
    assert "too large" in ask(loop, answering(Absent()), args="omitted")[2]
    pack = make_pack(effects=[PackEffect(effect_id="e", step=1, tool="gone", status="unknown", args={})])
    assert verdicts(pack, {}, loop, seconds=1)[0].found == "unsure"
