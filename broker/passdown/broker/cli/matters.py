"""What a person who decides a ticket is asked about: questions, arguments, stages, branches, and what each schema allows."""

from typing import Any, NamedTuple, cast

from passdown.broker.briefs import brief_of
from passdown.broker.client import Broker
from passdown.broker.core.given import Given, grant_of, permit_of
from passdown.broker.core.parts import Asked, Effect, Ticket
from passdown.broker.core.state import State
from passdown.broker.core.tickets import redirects
from passdown.broker.inbox import Ref, TicketView
from passdown.broker.joins.comparing import compare
from passdown.broker.logbook import events, read_logged
from passdown.contracts.errors import PlanError
from passdown.contracts.schema import Schema
from passdown.contracts.tools import narrow

#: Kinds of tickets that are about a join.
JOINS = ("conflict", "short")


class Matter(NamedTuple):
    """What a ticket is about. ``does`` says of each action what it will do; ``args`` are those of the pending action."""

    view: TicketView
    does: dict[str, str]
    questions: list[Asked]
    args: dict[str, Any]
    params: Schema
    output: Schema
    stages: list[str]
    branches: list[tuple[str, str]]

    @property
    def joins(self) -> bool:
        """Whether it is about a join."""
        return self.view.kind in JOINS


def matter_of(broker: Broker, view: TicketView) -> Matter:
    """Return what a ticket that this person may see is about. Raises PlanError where its plan is gone."""
    held = broker.app.controller.load(view.session_id)
    state = held.state
    ticket = state.ticket(view.ticket_no) if state else None
    if state is None or ticket is None:
        broker.inbox.show(view.session_id, view.ticket_no)  # says what became of it
        raise PlanError("", [f"ticket {view.session_id}/{view.ticket_no} is not there"])
    given, _ = broker.app.controller.catalog.given(state, state.plan, held.catalog)
    effect = state.effect(ticket.about)
    ref = Ref(view.session_id, view.ticket_no)
    stage = given.stage(state.stage)
    return Matter(
        view=view,
        does={one.action: one.does for one in brief_of(broker.app.controller, *ref).actions},
        questions=[one for one in state.questions if str(one.attempt) == ticket.about and not one.answered],
        args=_args(broker, ticket, effect, view.session_id),
        params=_params(given, state, effect),
        output=stage.returns.schema,
        stages=redirects(given.plan, state),
        branches=_branches(broker, ref) if ticket.kind in JOINS else [],
    )


def _args(broker: Broker, ticket: Ticket, effect: Effect | None, session_id: str) -> dict[str, Any]:
    """Return the arguments as they would run; those that are large stand in the log only."""
    if ticket.edited is not None:
        return ticket.edited
    if effect is None:
        return {}
    found = effect.edited or effect.args
    if found is not None:
        return found
    for raw in events(broker.app.store, session_id, after=effect.args_seq - 1, until=effect.args_seq):
        args = getattr(read_logged(raw).event, "args", None)
        if isinstance(args, dict):
            return cast("dict[str, Any]", args)
    return {}


def _params(given: Given, state: State, effect: Effect | None) -> Schema:
    """Return what changed arguments must fit, as far as the plan of the session says; the broker has the last word."""
    spec = given.pinned.get(effect.tool_digest) if effect else None
    if spec is None or effect is None:
        return True
    stage = given.stage(state.stage)
    grant = grant_of(stage, effect.tool) or permit_of(stage, effect.tool)
    return narrow(spec.params, grant.params) if grant else spec.params


def _branches(broker: Broker, ref: Ref) -> list[tuple[str, str]]:
    """Return the branches of a join that are shown side by side, each with how it stands."""
    sides = compare(broker.app.controller, *ref).sides
    return [(side.name, side.status if side.counts else f"{side.status}, does not count") for side in sides]
