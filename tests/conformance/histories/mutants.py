"""Deliberate breakages of the product. The histories must find each one; `test_mutants.py` holds them to it."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from passdown.broker import commits
from passdown.broker.core import (
    advance,
    claims,
    decide,
    effects,
    evolve,
    holding,
    packing,
    people,
    returning,
    settling,
)
from passdown.broker.core.parts import Effect
from passdown.broker.core.state import State
from passdown.broker.stores.base import Commit
from passdown.broker.stores.sqlite import SqliteStore, ticking
from passdown.broker.stores.sqlite.bells import Bells
from passdown.contracts import commands as cmd
from passdown.contracts.errors import Conflict

Mutant = Callable[[], AbstractContextManager[Any]]


def _swap(owner: object, name: str, new: Callable[..., Any] | int) -> AbstractContextManager[Any]:
    """Put something else in the place of a function of the product."""
    return patch.object(owner, name, new)


def _says(value: Any) -> Callable[..., Any]:
    """Return a function that always says the same."""

    def say(*_: Any) -> Any:
        return value

    return say


@contextmanager
def _no_fence() -> Generator[None]:
    """Whoever comes with any claim holds the attempt."""

    def holds(draft: Any, _fence: Any) -> bool:
        return draft.state.claim is not None

    with _swap(claims, "holds", holds), _swap(returning, "holds", holds), _swap(settling, "holds", holds):
        yield


@contextmanager
def _forgets_unknown() -> Generator[None]:
    """What is intended when its claim ends stays intended."""
    with (
        _swap(claims, "end_effects", _says(None)),
        _swap(effects, "end_effects", _says(None)),
        _swap(returning, "end_effects", _says(None)),
    ):
        yield


def _repeats_blindly() -> AbstractContextManager[Any]:
    """What verify did not find is written again, whether or not the outside absorbs that."""
    real: Any = vars(settling)["_settle_one"]

    def settle_one(draft: Any, effect: Effect, verdict: cmd.Verdict) -> str:
        if verdict.found != "absent":
            return real(draft, effect, verdict)
        event = effects.ev.EffectSettled(effect_id=effect.effect_id, status="not-done", repeat=True)
        draft.add(event)
        return ""

    return _swap(settling, "_settle_one", settle_one)


def _ignores_version() -> AbstractContextManager[Any]:
    """A commit wins against whatever was committed since its state was loaded."""
    real = SqliteStore.commit

    def commit(self: SqliteStore, given: list[Commit], take: Any = None) -> Any:
        forced = [replace(one, expected=self.load(one.session_id).version, prev="") for one in given]
        return real(self, forced, take)

    return _swap(SqliteStore, "commit", commit)


def _forgets_commands() -> AbstractContextManager[Any]:
    """No command is recognized when it comes again."""
    numbers = count()

    def command_id(*_: Any) -> str:
        return f"command-{next(numbers)}"

    return _swap(cmd, "command_id", command_id)


class _Everything:
    def __contains__(self, item: object) -> bool:
        return True


def _old_dues_fire() -> AbstractContextManager[Any]:
    """A due entry is acted on although the state waits for something else by now."""
    return _swap(decide, "dues", _says(_Everything()))


def _bell_stays() -> AbstractContextManager[Any]:
    """A take does not clear its role's bell."""
    return _swap(Bells, "answered", _says(None))


def _deaf_tick() -> AbstractContextManager[Any]:
    """The tick rings for nobody."""
    real: Any = vars(ticking)["_ring"]

    def ring(*given: Any) -> Any:
        return [], real(*given)[1]

    return _swap(ticking, "_ring", ring)


def _stays_queued() -> AbstractContextManager[Any]:
    """A pack that is claimed stays in its queue."""
    real: Any = vars(commits)["_queue"]

    def queue(before: State | None, after: State, pack: bytes | None) -> Any:
        return None if after.claim is not None else real(before, after, pack)

    return _swap(commits, "_queue", queue)


def _keeps_snapshot() -> AbstractContextManager[Any]:
    """A stage begins with the snapshot of the one before it."""
    real: Any = vars(evolve)["_stage_entered"]

    def stage_entered(state: State, *more: Any) -> State:
        return replace(real(state, *more), snapshot=state.snapshot)

    return _swap(evolve, "_stage_entered", stage_entered)


def _lease_stays() -> AbstractContextManager[Any]:
    """The lease of a claim that ended runs on."""
    real: Any = vars(commits)["_lease"]

    def lease(before: State | None, after: State) -> Any:
        found = real(before, after)
        return None if found == "end" else found

    return _swap(commits, "_lease", lease)


def _self_approval() -> AbstractContextManager[Any]:
    """Whoever submitted the work may approve what it does."""

    def four_eyes(draft: Any, ticket: Any) -> Any:
        return draft.state.effect(ticket.about)

    both = ExitStack()
    both.enter_context(_swap(people, "_four_eyes", four_eyes))
    both.enter_context(_swap(holding, "why_not", _says("")))
    return both


def _any_action_approved() -> AbstractContextManager[Any]:
    """An approval of one action is good for any."""

    def approved(_draft: Any, _body: Any, effect: Effect, *_: Any) -> bool:
        return effect.approval is not None

    return _swap(effects, "_approved", approved)


def _any_tool() -> AbstractContextManager[Any]:
    """The broker trusts the worker to call what its stage grants."""
    return _swap(claims, "problems", _says([]))


def _any_reporter() -> AbstractContextManager[Any]:
    """Anybody's word about an effect counts."""
    real: Any = settling.report

    def report(draft: Any, body: cmd.Report) -> Any:
        effect = draft.state.effect(body.effect_id)
        claim = effect.claims[-1] if effect and effect.claims else body.claim_id
        return real(draft, replace(body, claim_id=claim))

    return _swap(settling, "report", report)


def _runs_done_again() -> AbstractContextManager[Any]:
    """What the ledger holds for done is run once more."""
    real: Any = vars(effects)["_known"]

    def known(draft: Any, body: cmd.Intend, effect: Effect, grant: Any) -> Any:
        if effect.status == "done" and grant.approve is None:
            return vars(effects)["_intend"](draft, body, effect.identity, effect.n, None, None)
        return real(draft, body, effect, grant)

    return _swap(effects, "_known", known)


def _leaks() -> AbstractContextManager[Any]:
    """A goal is filled in once, and served to every session."""
    real = packing.fill
    filled: dict[str, str] = {}

    def fill(goal: str, data: dict[str, Any]) -> str:
        return filled.setdefault(goal, real(goal, data))

    return _swap(packing, "fill", fill)


def _uncapped() -> AbstractContextManager[Any]:
    """Fenced returns are recorded without end."""
    return _swap(claims, "FENCED_RECORDED", 10**9)


def _no_dues() -> AbstractContextManager[Any]:
    """Due entries are not written."""
    return _swap(commits, "_due_entries", _says([]))


def _unbound_return() -> AbstractContextManager[Any]:
    """A return is not held to its contract."""
    return _swap(returning, "_check_return", _says(None))


def _decides_for_others() -> AbstractContextManager[Any]:
    """What somebody holds is decided by whoever comes."""

    def decides(draft: Any, body: cmd.Resolve) -> Any:
        return holding.open_ticket(draft, body.ticket_no)

    return _swap(holding, "require_decides", decides)


def _claims_what_is_held() -> AbstractContextManager[Any]:
    """A claim takes a ticket from its holder without a word."""
    return _swap(holding, "_make_free", _says(""))


def _any_lease() -> AbstractContextManager[Any]:
    """Whoever comes with any lease holds on to a ticket, or gives it back."""

    def held(draft: Any, ticket_no: int, _lease: str) -> Any:
        ticket = holding.open_ticket(draft, ticket_no)
        if ticket.holder is None:
            raise Conflict(f"nobody holds ticket {ticket_no}")
        return ticket, ticket.holder

    return _swap(holding, "require_held", held)


def _approved_in_vain() -> AbstractContextManager[Any]:
    """Nobody is told that what they approved was not done."""
    return _swap(advance, "ask_about_unmet", _says(False))


MUTANTS: dict[str, Mutant] = {
    "a claim without its fence": _no_fence,
    "a lost claim forgets what is unknown": _forgets_unknown,
    "a blind repeat": _repeats_blindly,
    "a commit that ignores the version": _ignores_version,
    "no look-up of commands": _forgets_commands,
    "due entries of an old step": _old_dues_fire,
    "a take that leaves the bell": _bell_stays,
    "a deaf tick": _deaf_tick,
    "a claimed pack stays queued": _stays_queued,
    "a snapshot of another step": _keeps_snapshot,
    "a lease that never ends": _lease_stays,
    "self-approval": _self_approval,
    "an approval of any action": _any_action_approved,
    "arguments beyond the grant": _any_tool,
    "a report of anybody": _any_reporter,
    "an effect done again": _runs_done_again,
    "another session's text in a pack": _leaks,
    "fenced returns without end": _uncapped,
    "due entries not written": _no_dues,
    "a return without its contract": _unbound_return,
    "a decision on what another holds": _decides_for_others,
    "a claim of what another holds": _claims_what_is_held,
    "a lease of anybody": _any_lease,
    "an approval in vain": _approved_in_vain,
}
