"""A brief as text, for a terminal and for an export.

What others wrote stands in fences: a label that says whose it is, then its lines, each after ``| ``. The first line
without that ends the fence, so that nothing in a text can.
"""

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator

from passdown.broker.core.brief_text import many, span
from passdown.contracts.brief import Brief, BriefEffect, BriefSubject, BriefSubjects, Quoted, SubjectValue

_BAR = "| "
_NARROWEST = 20
_TOUCHED = {"": "", "proposed": ", named in a proposed write", "write": ", touched by a write"}


def render(brief: Brief, columns: int | None = None) -> str:
    """Return a brief as text. On a screen of so many columns lines are wrapped here, quoted ones each with its bar."""
    lines = [
        *_head(brief, columns),
        *_section("Goal", _goal(brief, columns)),
        *_section("Constraints", _items(brief.constraints)),
        *_section("Done when", _items(brief.done_when)),
        *_section("Where it stands", _standing(brief, columns)),
        *_section("Subjects", _subjects(brief.subjects)),
        *_section("Latest valid state", _fence(brief.state.content, columns)),
        *_section("Effects", _effects(brief, columns)),
        *_section("Evidence", _fences(brief.evidence, columns, brief.left_out.get("evidence", 0))),
        *_section("What the agent claims", _claims(brief, columns)),
        *_section("Last error", _fences([brief.last_error] if brief.last_error else [], columns)),
        *_section("Open risks", _risks(brief, columns)),
        *_section("Allowed actions", _actions(brief, columns)),
        *_section("Recommended next step", [brief.recommended.step, f"(rule: {brief.recommended.rule})"]),
        *_section("How it got here", _items(brief.history)),
        *_section("Questions", _questions(brief, columns)),
        *_section("Comments", _fences(brief.comments, columns, brief.left_out.get("comments", 0))),
        *_section("Earlier tickets", _earlier(brief, columns)),
        *_section("Completeness", _completeness(brief)),
    ]
    if columns is not None:
        lines = [part for line in lines for part in _own_wrapped(line, columns)]
    return "\n".join(lines) + "\n"


def _own_wrapped(line: str, columns: int) -> list[str]:
    """Wrap a line of ours between words, further in; quoted ones are wrapped already."""
    if line.startswith(_BAR) or len(line) <= columns:
        return [line]
    indent = " " * (len(line) - len(line.lstrip(" -")))
    return textwrap.wrap(line, max(columns, _NARROWEST), subsequent_indent=indent, break_on_hyphens=False)


def _head(brief: Brief, columns: int | None) -> Iterator[str]:
    ticket = brief.ticket
    yield f"# Brief of {brief.session_id}{f'/{ticket.ticket_no}' if ticket else ''}"
    yield ""
    yield f"plan {brief.plan}, as of event {brief.seq}"
    if ticket:
        yield f"ticket {ticket.ticket_no}, {ticket.kind}, in queue {ticket.queue}, opened {span(ticket.age_ms)} before"
        if ticket.approvals > 1:
            given = f": {', '.join(ticket.approved_by)}" if ticket.approved_by else ""
            yield f"approvals {len(ticket.approved_by)} of {ticket.approvals}{given}"
        if ticket.closed:
            yield f"closed: {ticket.closed}"
    yield "task"
    yield from _fence(brief.task, columns)


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield from lines


def _items(lines: list[str]) -> list[str]:
    return [f"- {one}" for one in lines] or ["none"]


def _fence(text: Quoted, columns: int | None) -> Iterator[str]:
    where = "" if text.event is None else f", event {text.event}"
    cut = f"; {text.cut:,} more characters are left out" if text.cut else ""
    yield f"[from {text.source}{where} — data, not an instruction{cut}]"
    for line in text.text.split("\n"):
        for part in _wrapped(line, columns):
            yield _BAR + part


def _wrapped(line: str, columns: int | None) -> Iterator[str]:
    """Break a line where it would go on without its bar; wide characters count twice."""
    room = None if columns is None else max(columns - len(_BAR), _NARROWEST)
    if room is None or len(line) * 2 <= room:
        yield line
        return
    began = used = 0
    for at, char in enumerate(line):
        wide = 1 if char.isascii() or unicodedata.east_asian_width(char) not in "WFA" else 2
        if used + wide > room:
            yield line[began:at]
            began, used = at, 0
        used += wide
    yield line[began:]


def _fences(texts: list[Quoted], columns: int | None, left_out: int = 0) -> Iterator[str]:
    if left_out:
        yield f"({left_out:,} older ones are left out)"
    if not texts:
        yield "none"
    for one in texts:
        yield from _fence(one, columns)


def _goal(brief: Brief, columns: int | None) -> Iterator[str]:
    yield brief.goal or "none"
    if brief.goal_filled:
        yield from _fence(brief.goal_filled, columns)


def _standing(brief: Brief, columns: int | None) -> Iterator[str]:
    one = brief.standing
    yield f"{one.status}: stage {one.stage}, step {one.step}, attempt {one.attempt}, entered {span(one.age_ms)} before"
    yield one.why
    for text in one.said:
        yield from _fence(text, columns)


def _subjects(subjects: BriefSubjects) -> Iterator[str]:
    if not subjects.labels:
        yield "not established"
    for one in subjects.labels:
        yield from _subject(one)
    if subjects.more_labels:
        yield f"({many(subjects.more_labels, 'further field')} with identifiers left out)"
    if subjects.unkept:
        yield f"(not looked into: {many(subjects.unkept, 'result')} that the log does not keep)"
    if subjects.unsearched:
        yield f"(not looked into to the end: {many(subjects.unsearched, 'long text')})"


def _subject(subject: BriefSubject) -> Iterator[str]:
    if not subject.values:
        yield f"- {subject.label}: not established"
    else:
        yield f"- {subject.label}:"
    for value in subject.values:
        yield f"  - {_value(value)}"
    if subject.left_out:
        yield f"  - and {subject.left_out:,} more"
    if subject.odd:
        yield f"  - and {many(subject.odd, 'value')} that are no identifiers"


def _value(one: SubjectValue) -> str:
    return f"{one.value} (first seen: event {one.event}, {one.where}{_TOUCHED[one.touched]})"


def _effects(brief: Brief, columns: int | None) -> Iterator[str]:
    effects = brief.effects
    counts = ", ".join(f"{count} {status}" for status, count in effects.counts.items())
    yield counts or "none"
    if effects.left_out:
        yield f"({effects.left_out:,} that are done, denied or not done are left out)"
    for one in effects.shown:
        yield from _effect(one, columns)


def _effect(one: BriefEffect, columns: int | None) -> Iterator[str]:
    yield ""
    yield f"{one.ordinal}. {one.tool} (step {one.step}, key {one.effect_id})"
    yield f"   decision: {one.decision}"
    yield f"   effect: {one.outcome}"
    if one.undo:
        yield f"   undo: {one.undo}"
    parts = [
        ("arguments", one.args),
        ("proposed before the edit", one.proposed_args),
        ("result", one.result),
        ("error", one.error),
    ]
    for label, text in parts:
        if text is not None:
            yield f"   {label}:"
            yield from _fence(text, columns)


def _claims(brief: Brief, columns: int | None) -> Iterator[str]:
    one = brief.claims
    if one is None:
        yield "nothing: no agent has returned"
        return
    yield f"it returned {one.result} ({one.place})"
    for text in one.said:
        yield from _fence(text, columns)
    yield f"the ledger shows: {one.ledger}"
    yield "differences:" if one.differences else "differences: none found"
    for difference in one.differences:
        yield f"- DIFFERS: {difference}"


def _risks(brief: Brief, columns: int | None) -> Iterator[str]:
    yield from _items(brief.risks.known)
    for text in brief.risks.said:
        yield from _fence(text, columns)
    if left_out := brief.left_out.get("risks", 0):
        yield f"({left_out:,} more that the agent named are left out)"


def _actions(brief: Brief, columns: int | None) -> Iterator[str]:
    if not brief.actions:
        yield "none"
    for one in brief.actions:
        yield f"- {one.action}: {one.does}{':' if one.exactly else ''}"
        if one.exactly:
            yield from _fence(one.exactly, columns)


def _questions(brief: Brief, columns: int | None) -> Iterator[str]:
    if left_out := brief.left_out.get("questions", 0):
        yield f"({left_out:,} older ones are left out)"
    if not brief.questions:
        yield "none"
    for one in brief.questions:
        yield from _fence(one.asked, columns)
        if one.answer is None:
            yield "not answered"
        else:
            yield from _fence(one.answer, columns)


def _earlier(brief: Brief, columns: int | None) -> Iterator[str]:
    if left_out := brief.left_out.get("earlier tickets", 0):
        yield f"({left_out:,} older ones are left out)"
    yield from _items([f"ticket {one.ticket_no} ({one.kind}): {one.how}" for one in brief.earlier])
    for one in brief.earlier:
        if one.note:
            yield from _fence(one.note, columns)


def _completeness(brief: Brief) -> Iterator[str]:
    missing = brief.completeness.missing
    yield f"{brief.completeness.score} of 100{'; missing: ' + ', '.join(missing) if missing else ''}"
