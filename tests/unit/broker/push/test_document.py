"""The messages in docs/push.md are whole: what they show can be read, and fits together."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.plans import compile_plan
from passdown.broker.schemas import examples
from passdown.contracts.codec import encode
from passdown.contracts.returns import read_return

TEXT = (Path(__file__).resolve().parents[4] / "docs" / "push.md").read_text()
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def blocks(language: str) -> list[str]:
    """Return the blocks of a language."""
    return [body for kind, body in _BLOCK.findall(TEXT) if kind == language]


def test_the_pack_is_the_one_of_the_published_schema() -> None:
    assert json.loads(blocks("json")[0]) == json.loads(encode(examples.PUSH))


def test_the_return_is_one_and_answers_that_pack() -> None:
    push: dict[str, Any] = json.loads(blocks("json")[0])
    given = read_return(blocks("json")[1].encode())
    pack = push["pack"]
    assert (given.session_id, given.step, given.attempt) == (pack["sessionId"], pack["step"], pack["attempt"])
    assert (given.claim_id, given.pack_digest, given.stage) == (
        push["claimId"],
        pack["digest"],
        pack["stage"],
    )


def test_the_stage_is_sound() -> None:
    stages = tomllib.loads(blocks("toml")[0])["stages"]
    plan = compile_plan({"name": "p", "start": "translate", "stages": stages})
    assert plan.stages["translate"].delivery == "push"


@pytest.mark.parametrize("block", blocks("python"))
def test_the_code_is_code(block: str) -> None:
    compile(block, "docs/push.md", "exec")
