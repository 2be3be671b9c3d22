"""`replay`: prove stored states from their logs (rule 6)."""

from collections.abc import Iterable

import click

from passdown.broker.cli import output
from passdown.broker.cli.frame import Command, Frame, json_option
from passdown.broker.cli.opening import opened
from passdown.broker.cli.screens import show_transition
from passdown.broker.cli.views.exports import all_members
from passdown.broker.cli.views.transitions import Proof, Replay, prove
from passdown.broker.cli.words import many, size
from passdown.broker.client import Broker


@click.command("replay", cls=Command)
@click.argument("session", required=False)
@click.option("--all", "every", is_flag=True, help="Prove every session and branch, and sum up.")
@json_option
@click.pass_obj
@click.pass_context
def replay_command(ctx: click.Context, frame: Frame, session: str | None, every: bool, as_json: bool) -> None:
    """Prove stored states from their logs.

    Folds the log event by event, checks the hash chain, and compares what comes out with the stored
    state, byte for byte. Exits with 1 where they differ, and says where. With --json each transition is a
    line, the proof the last one; with --all each proof is a line.
    """
    if (session is None) != every:
        raise click.UsageError("name a SESSION, or --all", ctx)
    with opened(frame, "store.read" if every else "session.read") as broker:
        holds = _replay_all(broker, as_json) if session is None else _replay_one(broker, session, as_json)
    if not holds:
        ctx.exit(1)


def _replay_one(broker: Broker, session: str, as_json: bool) -> bool:
    return show_replay(Replay(broker.app.store, broker.session(session).id), as_json)


def show_replay(replay: Replay, as_json: bool, where: str = "") -> bool:
    """Print each transition, and whether the log gives the state; returns that. `where` says which log it is."""
    for one in replay:
        if as_json:
            output.print_line(one)
        else:
            show_transition(one)
    proof = replay.proof()
    if as_json:
        output.print_line(proof)
    else:
        _show_proof(proof, where)
    return proof.holds


def _show_proof(proof: Proof, where: str = "") -> None:
    if proof.holds:
        output.say(
            f"{where}the log gives the stored state, byte for byte: {many(proof.events, 'event')}, an unbroken chain,"
            f" {size(proof.bytes)}, SHA-256 {proof.digest}"
        )
        return
    whose = f" (a branch of {proof.parent})" if proof.parent else ""
    output.say(f"{where}{proof.session_id}{whose}: the log does not give the stored state")
    for problem in proof.problems:
        output.say(problem, 2)


def _replay_all(broker: Broker, as_json: bool) -> bool:
    proofs = (prove(broker.app.store, one.session_id) for one in all_members(broker))
    return show_proofs(proofs, as_json)


def show_proofs(proofs: Iterable[Proof], as_json: bool, where: str = "") -> bool:
    """Print whether each log gives its state, or a sum of that; returns whether all do. `where` begins the sum."""
    sessions = branches = events = 0
    differing: list[Proof] = []
    with output.progress("sessions proved", hidden=as_json) as advance:
        for proof in proofs:
            sessions += not proof.parent
            branches += bool(proof.parent)
            events += proof.events
            differing += [] if proof.holds else [proof]
            if as_json:
                output.print_line(proof)
            advance()
    if not as_json:
        counts = [many(sessions, "session"), *([many(branches, "branch")] if branches else [])]
        _show_sum(f"{where}{', '.join([*counts, many(events, 'event')])}", differing)
    return not differing


def _show_sum(counted: str, differing: list[Proof]) -> None:
    for proof in differing:
        _show_proof(proof)
    outcome = f"{len(differing):,} differ" if differing else "every log gives its stored state, byte for byte"
    output.say(f"{counted}: {outcome}")
