"""Keeps a replayed session within its budgets: long texts are shortened, with a mark, as far as need be.

Questions, answers and reading calls of a step stand in the session's state until the step ends, and a
replayed run is one step. Results of tools and arguments are never touched.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from passdown.broker.demo.record import Act, Asked, Called, Run
from passdown.contracts.codec import INLINE_LIMIT, KIB, STATE_BUDGET, encode

#: No single text is longer than this: the questions of a return may have 12 KiB, with their ids and schemas.
LONGEST = 11 * KIB
_SHORTEST = 64
#: What the state holds beside texts, results and arguments: in all, for each question, call and effect.
_FIXED, _PER_ENTRY = 24 * KIB, 600
#: How many reading calls, and how many effects with their bulk, a state keeps.
_READS, _EFFECTS = 32, 16


def fit(run: Run) -> Run | None:
    """Return the run with its texts as long as the budgets allow; None where none are short enough."""
    room = STATE_BUDGET - _FIXED - _bulk(run)
    sizes = [_size(text) for text in _texts(run)]
    limit = LONGEST
    while sum(min(size, limit) for size in sizes) > room:
        if limit < _SHORTEST:
            return None
        limit //= 2
    if max(sizes) <= limit:
        return run
    acts = [_shorter(act, limit) for act in run.acts]
    return replace(run, request=shorten(run.request, limit), acts=acts)


def _texts(run: Run) -> Iterator[str]:
    yield run.request
    for act in run.acts:
        if isinstance(act, Asked):
            yield act.text
            yield act.answer or ""


def _bulk(run: Run) -> int:
    """Return at most how many bytes of the state the calls and questions need beside their texts."""
    reads = sorted((_kept(call) for call in run.calls() if not call.writes), reverse=True)[:_READS]
    effects = sorted((_kept(call) for call in run.calls() if call.writes), reverse=True)[:_EFFECTS]
    questions = sum(isinstance(act, Asked) for act in run.acts)
    written = sum(call.writes for call in run.calls())
    return sum(reads) + sum(effects) + _PER_ENTRY * (len(reads) + written + questions)


def _kept(call: Called) -> int:
    sizes = (len(encode(call.args)), len(encode(call.result)))
    if call.writes:
        return sum(size for size in sizes if size <= INLINE_LIMIT)
    return sum(sizes) if max(sizes) <= INLINE_LIMIT else min(sizes[0], INLINE_LIMIT)


def _shorter(act: Act, limit: int) -> Act:
    if not isinstance(act, Asked):
        return act
    answer = None if act.answer is None else shorten(act.answer, limit)
    return replace(act, text=shorten(act.text, limit), answer=answer)


def shorten(text: str, limit: int) -> str:
    """Return the text in at most `limit` bytes as JSON, with a mark that says how long it was."""
    size = _size(text)
    if size <= limit:
        return text
    mark = f"… ({len(text)} characters)"
    cut = text[:limit]
    while cut and _size(cut) + _size(mark) > limit:
        cut = cut[: -max(1, (_size(cut) + _size(mark) - limit) // 6)]
    return cut + mark


def _size(text: str) -> int:
    return len(encode(text))
