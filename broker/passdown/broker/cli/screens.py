"""Views of one session, on a screen."""

from rich.text import Text

from passdown.broker.cli.output import say, say_command, status_text, width
from passdown.broker.cli.views.effects import WhyView
from passdown.broker.cli.views.sentences import GOOD, TROUBLE
from passdown.broker.cli.views.sessions import EffectView, QuestionView, StatusView, TicketView, Wait
from passdown.broker.cli.views.transitions import Transition
from passdown.broker.cli.words import ago, brief, clean, clock, cut, iso, many, span, when
from passdown.broker.joins.tree import Above

_LABEL = 12
_ENDED = {
    "Returned": "returned",
    "ReturnRejected": "its return was rejected",
    "LeaseLost": "was lost",
    "ClaimReleased": "handed back",
    "EffectProposed": "put the effect to a person",
}
#: From this width on times have milliseconds (columns).
_WIDE = 100


def label(name: str, text: str | Text) -> None:
    """Print a named fact, its text aligned with the others."""
    say(text, _LABEL, Text(name, style="dim"))


def heading(text: str) -> None:
    """Print the heading of a part."""
    say("")
    say(Text(text, style="bold"))


def path_text(above: list[Above]) -> Text:
    """Return the way from the root to a branch: each session, and the branch by which the way goes on."""
    found = Text()
    for one in above:
        found.append(one.session_id)
        if one is above[0] and one.task_name:
            found.append(f" ({cut(clean(one.task_name), 60)})", style="dim")
        found.append(f" > {clean(one.stage)}/{clean(one.branch)}", style="bold")
        found.append("" if one is above[-1] else " > ")
    return found


def show_status(view: StatusView) -> None:
    """Print where a session stands."""
    say(Text(clean(view.task_name), style="bold") + Text("  ") + status_text(view.status))
    label("session", view.session_id)
    if view.above:
        label("branch", path_text(view.above))
    label("key", clean(view.key))
    label("plan", _place(view))
    label("submitted", f"by {clean(view.by)} at {when(view.opened_at)}, {ago(view.opened_at, view.now)}")
    label(
        "changed", f"{when(view.updated_at)}, {ago(view.updated_at, view.now)}; {many(view.events, 'event')}"
    )
    if view.handed_back and not view.outcome:
        label("handed back", clean(view.handed_back))
    for note in view.feedback:
        label("feedback", clean(note))
    for name, count in view.counts.items():
        label(clean(name), str(count))
    _parts(view)


def _place(view: StatusView) -> str:
    attempt = f", attempt {view.attempt}" if view.attempt else ""
    cause = f" ({view.cause})" if view.cause else ""
    return f"{view.plan}, stage {view.stage}, step {view.step}{attempt}{cause}"


def _parts(view: StatusView) -> None:
    waits = [wait for wait in view.waits if wait.kind not in ("ticket", "answer")]
    if waits:
        heading("waits for")
        for wait in waits:
            _show_wait(wait, view.now)
    if view.tickets:
        heading("open tickets")
        for ticket in view.tickets:
            show_ticket(ticket, view.now)
    if view.questions:
        heading("questions")
        for question in view.questions:
            _show_question(question)
    if view.effects:
        heading("effects")
        for effect in view.effects:
            _show_effect(effect)
    if view.outcome:
        heading("outcome")
        _show_outcome(view)


def _show_wait(wait: Wait, now: int) -> None:
    say(f"{clean(wait.what)}{_until(wait.until, now)}", 2)
    if wait.do:
        say_command(wait.do, 4)


def _until(at: int | None, now: int) -> str:
    if at is None:
        return ""
    if at <= now:
        return f", due since {span(now - at)}: a tick acts on it"
    return f", until {when(at)} ({ago(at, now)})"


def show_ticket(ticket: TicketView, now: int) -> None:
    """Print an open ticket."""
    age = span(now - ticket.opened_at)
    number = ticket.ticket.rpartition("/")[2]
    say(f"{ticket.kind} in {clean(ticket.queue)} for {age}: {clean(ticket.why)}", 4, f"  {number}")
    if ticket.tool:
        say(f"{clean(ticket.tool)} {brief(ticket.args, 2000)}", 4)
    say(f"RESOLUTION is one of {', '.join(ticket.actions)}", 4)
    say_command(ticket.do, 4)


def _show_question(question: QuestionView) -> None:
    asked = (
        f"{clean(question.id)} (attempt {question.attempt}, of {clean(question.ask)}): {clean(question.text)}"
    )
    say(asked, 2)
    if question.answered:
        say(f"answered by {clean(question.by)}: {brief(question.value)}", 4)
    else:
        if question.schema is not True:
            say(f"VALUE must fit {brief(question.schema, 400)}", 4)
        say_command(question.do, 4)


def _show_effect(effect: EffectView) -> None:
    tries = f" after {many(effect.attempts, 'attempt')}" if effect.attempts > 1 else ""
    args = "" if effect.args is None else f" {brief(effect.args)}"
    said = status_text(effect.status) + Text(f"{tries}  {clean(effect.tool)}{args}")
    say(said, 4, f"  {effect.ordinal}")
    if effect.error:
        say(clean(effect.error), 4)
    elif effect.status == "done" and effect.result is not None:
        say(f"result {brief(effect.result)}", 4)
    if effect.approved_by:
        say(f"approved by {clean(effect.approved_by)}", 4)
    say_command(f"passdown why {effect.effect_id}", 4)


def _show_outcome(view: StatusView) -> None:
    outcome = view.outcome
    if outcome is None:
        return
    line = status_text(outcome.result)
    if outcome.reason:
        line.append(
            f": {clean(outcome.reason)}{f' (policy {clean(outcome.policy)})' if outcome.policy else ''}"
        )
    if outcome.output is not None:
        line.append(f": {brief(outcome.output, 4000)}")
    say(line, 2)


def show_why(view: WhyView) -> None:
    """Print what lies behind an effect."""
    say(Text(clean(view.tool), style="bold") + Text("  ") + status_text(view.status))
    label("effect", view.effect_id)
    label("session", f"{view.session_id} ({clean(view.task_name)})")
    if view.above:
        label("branch", path_text(view.above))
    label("submitted", f"by {clean(view.submitted_by)} as {view.plan}, key {clean(view.key)}")
    label("stage", f"{clean(view.stage)}, step {view.step}")
    if view.proposed_args is not None:
        label("proposed", brief(view.proposed_args, 2000))
    label("arguments", brief(view.args, 2000))
    if view.error:
        label("error", clean(view.error))
    if view.status == "done":
        label("result", brief(view.result, 2000))
    for one in view.attempts:
        worker = f", {clean(one.worker)}" if one.worker else ", nobody claimed it"
        wrote = ", intended the effect" if one.intended else ""
        how = "asked the tool's verify" if one.cause == "settle" else _ENDED.get(one.ended, one.ended)
        ended = f", {how}" if one.ended else ""
        label(f"attempt {one.attempt}", f"{one.cause}{worker}{wrote}{ended}")
    for decision in view.decisions:
        note = f": {clean(decision.note)}" if decision.note else ""
        label(
            "decision",
            f"{decision.resolution} by {clean(decision.by)} (ticket {decision.ticket_no} in {clean(decision.queue)}){note}",
        )
    heading("chain")
    show_transitions(view.chain)


def show_transitions(chain: list[Transition]) -> None:
    """Print events, each a line."""
    for one in chain:
        show_transition(one)


def show_transition(one: Transition, whose: str | None = None) -> None:
    """Print an event: its number, time, principal, name and sentence; and the status, where it changed.

    In the log of a tree `whose` says of which branch it is, in place of the principal where there is little room.
    """
    columns = width()
    if columns is None:
        time, by = iso(one.at), f"{one.by:<18}"
    else:
        time, by = (clock(one.at) if columns >= _WIDE else clock(one.at)[:8]), f"{cut(one.by, 18):<18}"
    lead = Text(f"{one.seq:>4} {time} ", style="dim")
    if whose is not None:
        lead.append(f"{whose} ", style="cyan")
    if whose is None or columns is None or columns >= _WIDE:
        lead.append(f"{clean(by)} ", style="none")
    name = one.event if columns is not None and columns < _WIDE else f"{one.event:<15}"
    line = Text(name, style=_style(one.event))
    line.append(f"  {one.text}")
    if one.before != one.after:
        line.append(f"  [{one.before or 'new'} → {one.after}]", style="dim")
    say(line, lead.cell_len, lead)


def _style(event: str) -> str:
    if event in TROUBLE:
        return "bold yellow"
    return "bold green" if event in GOOD else "bold"
