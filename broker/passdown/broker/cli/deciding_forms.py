"""Deciding a ticket by a form at a terminal.

While it is open, the claim is extended; where it is lost all the same, that is said at once, and by whom. Whatever ends
the form, what was typed is kept as this person's draft, which the next form begins with.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import click
from rich.text import Text

from passdown.broker.cli.forms import NOTHING, Form, pretty
from passdown.broker.cli.keeping import Keeper
from passdown.broker.cli.matters import Matter, matter_of
from passdown.broker.cli.prompts import EDITOR, Prompts, Stopped
from passdown.broker.cli.resolving import Decision, decide
from passdown.broker.cli.ticket_screens import until
from passdown.broker.cli.views.tickets import name_of
from passdown.broker.cli.words import ago, brief, clean
from passdown.broker.client import Broker
from passdown.broker.inbox import Draft, Ref, TicketView
from passdown.contracts.codec import encode
from passdown.contracts.errors import Conflict, ContractError, Denied, PassdownError
from passdown.contracts.schema import Schema
from passdown.contracts.ticket_events import Resolution

#: Exit code where a person decided not to send it.
_NOT_SENT = 1


@dataclass
class Work:
    """What is typed, as it is typed."""

    resolution: Resolution | None = None
    value: Any = None
    note: str = ""

    @property
    def begun(self) -> bool:
        """Whether anything was typed that is worth keeping."""
        return self.value not in (None, "", {}) or bool(self.note)


class DecidingForm:
    """One form about one ticket that this person holds."""

    def __init__(self, broker: Broker, view: TicketView, matter: Matter, prompts: Prompts) -> None:
        self._broker = broker
        self._view = view
        self._ref = Ref(view.session_id, view.ticket_no)
        self._prompts = prompts
        self._matter = matter
        self._kept = broker.inbox.draft(*self._ref)
        self.work = Work()

    # -- asking ---------------------------------------------------------------------------------------------

    def ask(self, resolution: Resolution | None, note: str) -> Decision | None:
        """Return what is to be sent; None where the person says no at the end. Raises Stopped."""
        self._begin(resolution, note)
        self.work.resolution = resolution or self._resolution()
        self._value(self.work.resolution)
        if not note and not (self.work.resolution == "send-back" and self._matter.joins):
            self._note()
        return self.confirmed()

    def confirmed(self) -> Decision | None:
        """Show what will be sent and ask."""
        work, view = self.work, self._view
        self._show()
        if not self._prompts.yes("send it?", given=None):
            return None
        seen = self._kept.version if self._kept else 0
        resolution = cast("Resolution", work.resolution)
        return Decision(resolution, work.value, work.note, view.version, view.lease, seen)

    def again(self, error: ContractError) -> Decision | None:
        """Ask once more for a value that was refused."""
        self._prompts.say(Text(clean(str(error)), style="red"))
        self._value(cast("Resolution", self.work.resolution))
        return self.confirmed()

    def _begin(self, resolution: Resolution | None, note: str) -> None:
        """Begin with the draft that was kept, if the person wants that."""
        kept, self.work.note = self._kept, note
        if kept is None:
            return
        draft = kept.draft
        if resolution is not None and draft.resolution != resolution:
            # There is one draft of a ticket: on the screen it is not lost at least.
            said = clean(encode(draft).decode())
            self._prompts.say(f"What you type takes the place of your draft: {said}")
            return
        now = self._broker.app.store.load("").now
        self._prompts.say(f"You have a draft of {ago(kept.at, now)}: {_told(draft)}")
        if self._prompts.yes("go on with it?", given=True):
            self.work = Work(draft.resolution, draft.value, note or draft.note)

    def _resolution(self) -> Resolution:
        options = [(one, self._matter.does.get(one, "")) for one in self._view.actions]
        chosen = cast("Resolution", self._prompts.choose(options, "your decision", self.work.resolution))
        if chosen != self.work.resolution:
            self.work.value = None
        return chosen

    def _value(self, resolution: Resolution) -> None:
        match resolution:
            case "answer":
                self._answers()
            case "edit":
                self._prompts.say("the arguments; Enter keeps what stands in brackets")
                self._object(self._matter.params, self._matter.args)
            case "complete":
                self._prompts.say("the output of the stage")
                self._object(self._matter.output, {})
            case "send-back":
                self._send_back()
            case "redirect":
                stages = [(one, "") for one in self._matter.stages]
                self.work.value = self._prompts.choose(stages, "to stage", _text(self.work.value))
            case "choose":
                self.work.value = self._prompts.choose(
                    self._matter.branches, "branch", _text(self.work.value)
                )
            case "done":
                given = NOTHING if self.work.value is None else self.work.value
                found = Form(self._prompts).value(True, "its result", given, required=False)
                self.work.value = None if found is NOTHING else found
            case _:
                self.work.value = None

    def _answers(self) -> None:
        into = self._into({})
        for one in self._matter.questions:
            self._prompts.quote(one.text)
            schema: Schema = {"properties": {one.id: one.schema}, "required": [one.id]}
            Form(self._prompts, one.schema).fields(schema, into)
        known = [one.id for one in self._matter.questions]
        self.work.value = {name: into[name] for name in known}

    def _object(self, schema: Schema, given: dict[str, Any]) -> None:
        into = self._into(given)
        form = Form(self._prompts, schema)
        shaped = isinstance(schema, dict) and bool({"properties", "$ref", "allOf"} & set(schema))
        if not shaped:
            self.work.value = form.json({"type": "object"}, into or NOTHING)
            return
        form.fields(schema, into)
        while form.wrong(schema, into):
            form.fields(schema, into)

    def _into(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the object that is filled in: that of the draft, else a copy of what is given."""
        known = self.work.value
        self.work.value = dict(cast("dict[str, Any]", known)) if isinstance(known, dict) else dict(given)
        return self.work.value

    def _send_back(self) -> None:
        if not self._matter.joins:
            self.work.value = self._words("what to do better", _text(self.work.value) or "", self._keep_value)
            return
        into = self._into({"branches": []})
        names = [name for name, _ in self._matter.branches]
        listed = ", ".join(f"{name} ({how})" for name, how in self._matter.branches)
        self._prompts.say(f"branches: {clean(listed)}")
        schema: Schema = {"type": "array", "items": {"type": "string"}, "minItems": 1}
        if len(names) <= 1 or into["branches"]:
            into["branches"] = into["branches"] or names
        into["branches"] = Form(self._prompts).value(
            schema, "branches that it goes back to", into["branches"] or NOTHING
        )

        def keep(text: str) -> None:
            into["feedback"] = text

        into["feedback"] = self._words("what to do better", into.get("feedback", ""), keep)

    def _note(self) -> None:
        def keep(text: str) -> None:
            self.work.note = text

        self.work.note = self._words("note", self.work.note, keep, needed=False)

    def _keep_value(self, text: str) -> None:
        self.work.value = text

    def _words(self, label: str, given: str, keep: Any, *, needed: bool = True) -> str:
        """Ask for a text; one that is not finished is kept."""
        default = f" [{brief(given, 60)}]" if given else "" if needed else " (Enter for none)"
        while True:
            try:
                typed = self._prompts.line(f"{label}{default}: ")
            except Stopped as stopped:
                keep(stopped.typed or given)
                raise
            if typed == EDITOR:
                try:
                    typed = self._prompts.edited(given, ".txt")
                except ContractError as error:
                    self._prompts.say(Text(clean(str(error)), style="red"))
                    continue
            if typed or given or not needed:
                return typed or given
            self._prompts.say(f"it needs words; {EDITOR} opens an editor")

    # -- showing --------------------------------------------------------------------------------------------

    def _show(self) -> None:
        work, say = self.work, self._prompts.say
        say()
        say(Text("this will be sent", style="bold"))
        say(f"{work.resolution}  {self._matter.does.get(str(work.resolution), '')}", 2, "  ")
        if work.resolution == "edit":
            self._difference(cast("dict[str, Any]", work.value))
        elif work.resolution == "approve":
            self._exactly()
        elif work.value is not None:
            for one in (work.value if isinstance(work.value, str) else pretty(work.value)).split("\n"):
                say(clean(one), 4, "  | ")
        if work.note:
            for one in work.note.split("\n"):
                say(clean(one), 8, "  note: ")

    def _exactly(self) -> None:
        if self._matter.args:
            for one in pretty(self._matter.args).split("\n"):
                self._prompts.say(clean(one), 4, "  | ")

    def _difference(self, value: dict[str, Any]) -> None:
        before = self._matter.args
        for name in {**before, **value}:
            old, new = before.get(name, NOTHING), value.get(name, NOTHING)
            if old is not NOTHING and new is not NOTHING and encode(old) == encode(new):
                self._prompts.say(f"{clean(name)}: {brief(new, 2000)}", 4, "    ")
                continue
            if old is not NOTHING:
                self._prompts.say(Text(f"{clean(name)}: {brief(old, 2000)}", style="red"), 4, "  - ")
            if new is not NOTHING:
                self._prompts.say(Text(f"{clean(name)}: {brief(new, 2000)}", style="green"), 4, "  + ")

    # -- keeping --------------------------------------------------------------------------------------------

    def keep(self) -> str:
        """Keep what was typed, where anything was; returns what is said of it.

        One that they wrote elsewhere meanwhile is not overwritten.
        """
        if not self.work.begun:
            return ""
        seen = self._kept.version if self._kept else 0
        try:
            self._broker.inbox.keep_draft(*self._ref, self._draft(), expected=seen)
        except PassdownError as error:
            # It cannot be kept: on the screen it is not lost at least.
            return f"this could not be kept ({error}): {encode(self._draft()).decode()}"
        return "what you typed is kept as your draft"

    def show_unless_kept(self) -> None:
        """Show what was sent too late, unless it was kept then: on the screen it is not lost at least."""
        if not self.work.begun:
            return
        with suppress(PassdownError):
            kept = self._broker.inbox.draft(*self._ref)
            if kept is not None and encode(kept.draft) == encode(self._draft()):
                return
        self._prompts.say(f"what you typed: {clean(encode(self._draft()).decode())}")

    def _draft(self) -> Draft:
        work = self.work
        return Draft(resolution=work.resolution, value=work.value, note=work.note)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _told(draft: Draft) -> str:
    value = "" if draft.value is None else f" {brief(draft.value, 120)}"
    note = f", note: {brief(draft.note, 60)}" if draft.note else ""
    return f"{draft.resolution or 'not decided'}{value}{note}"


def resolve_by_form(
    ctx: click.Context, broker: Broker, ref: Ref, resolution: Resolution | None, note: str
) -> None:
    """Ask for a decision and send it. Raises what `Inbox.resolve` does; exits with 1 where the person does not send it.

    A ticket that nobody holds is claimed for as long as the form is open.
    """
    view = broker.inbox.show(*ref)
    if resolution is not None and resolution not in view.actions:
        allowed = ", ".join(view.actions)
        why = f"it allows {allowed}"
        raise broker.acting.refused("ticket.resolve", f"{resolution} this {view.kind} ticket", why)
    matter, claimed = matter_of(broker, view), not view.lease
    if claimed:
        view = broker.inbox.claim(*ref, version=view.version)
    with Prompts() as prompts:
        form = DecidingForm(broker, view, matter, prompts)
        _say_about(broker, view, prompts)
        try:
            with Keeper(broker, view, prompts.stop):
                sent = _asked_and_sent(form, broker, ref, resolution, note)
        except (Stopped, KeyboardInterrupt) as stopped:
            _stopped(form, stopped, broker, view, claimed=claimed)
            raise KeyboardInterrupt from None
        if not sent:
            _leave(form, broker, view, prompts, claimed=claimed)
            ctx.exit(_NOT_SENT)


def _say_about(broker: Broker, view: TicketView, prompts: Prompts) -> None:
    prompts.say(Text(f"{name_of(view)}  {view.kind} in {clean(view.queue)}", style="bold"))
    prompts.quote(view.why)
    prompts.say(
        f"You hold it {until(view.until, broker.app.store.load('').now)}; it is extended while you type."
    )


def _asked_and_sent(
    form: DecidingForm, broker: Broker, ref: Ref, resolution: Resolution | None, note: str
) -> bool:
    decision = form.ask(resolution, note)
    while decision is not None:
        try:
            decide(broker, ref, decision)
        except ContractError as error:
            decision = form.again(error)
        except (Conflict, Denied):
            form.show_unless_kept()  # `Inbox.resolve` keeps what comes too late, and says so
            raise
        except PassdownError:
            if said := form.keep():
                click.echo(clean(said))
            raise
        else:
            return True
    return False


def _stopped(
    form: DecidingForm, stopped: BaseException, broker: Broker, view: TicketView, *, claimed: bool
) -> None:
    """Keep what was typed before anything else: the terminal may be gone."""
    said = form.keep()
    error = stopped.error if isinstance(stopped, Stopped) else None
    if error is None:
        _give_back(broker, view, claimed=claimed)
    click.echo()
    if isinstance(error, Conflict):
        raise _with(error, said) from None
    if said:
        click.echo(clean(said))
    if error is not None:
        raise error


def _leave(form: DecidingForm, broker: Broker, view: TicketView, prompts: Prompts, *, claimed: bool) -> None:
    said = form.keep()
    _give_back(broker, view, claimed=claimed)
    prompts.say(f"nothing was sent{f'; {clean(said)}' if said else ''}")


def _give_back(broker: Broker, view: TicketView, *, claimed: bool) -> None:
    """Release a ticket that was claimed for this form alone."""
    if not claimed:
        return
    with suppress(Conflict):  # it ran out, or was taken over
        broker.inbox.release(view.session_id, view.ticket_no, lease=view.lease)


def _with(error: Conflict, said: str) -> Conflict:
    return Conflict(f"{error.what}; {said}", error.winner, error.decided) if said else error
