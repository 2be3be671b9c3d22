"""What every session must show after it ended, however it was disturbed."""

import json
from pathlib import Path

from passdown.broker.client import Session
from passdown.broker.core.evolve import fold
from passdown.contracts.codec import encode
from passdown.contracts.events import Claimed, EffectIntended, PackIssued, Returned, StageEntered


def assert_sound(session: Session) -> None:
    """Rule 6: the log gives the state. Rule 2: one accepted return per attempt. Stages are entered in order."""
    log = list(session.events())
    assert encode(fold(log)) == encode(session.state())
    attempts: set[tuple[int, int]] = set()
    step = attempt = 0
    for logged in log:
        match logged.event:
            case StageEntered(step=entered):
                assert entered == step + 1
                step = entered
            case PackIssued(attempt=issued):
                attempt = issued
            case Returned():
                assert (step, attempt) not in attempts, "a second return was accepted"
                attempts.add((step, attempt))
            case _:
                pass


def arrived(outside: Path) -> dict[str, list[bool]]:
    """Return for each key whether its first, second, … arrival outside was applied.

    Two processes may have written one key at the same moment, and neither saw the other's.
    """
    found: dict[str, list[bool]] = {}
    if outside.exists():
        for line in outside.read_text().splitlines():
            one = json.loads(line)
            known = found.setdefault(one["key"], [])
            known.append(one["applied"] and not (one["absorbs"] and True in known))
    return found


def applied(outside: Path) -> dict[str, int]:
    """Return how often each key was applied outside."""
    return {key: sum(arrivals) for key, arrivals in arrived(outside).items()}


def assert_once(session: Session, outside: Path) -> None:
    """Rule 3: each effect that the ledger holds for done was applied outside exactly once, and no other."""
    done = {effect.effect_id for effect in session.state().effects if effect.status == "done"}
    mine = {key: count for key, count in applied(outside).items() if key.startswith(session.id)}
    assert mine == dict.fromkeys(done, 1)


def intents(session: Session) -> list[str]:
    """Return the tools that were intended, in order."""
    return [logged.event.tool for logged in session.events() if isinstance(logged.event, EffectIntended)]


def claims(session: Session) -> int:
    """Return how many claims the log holds."""
    return sum(isinstance(logged.event, Claimed) for logged in session.events())
