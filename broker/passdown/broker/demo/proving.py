"""The proof of a replay: ledger and outside journal hold exactly the recorded writes, once each, in order."""

from collections.abc import Iterator

from passdown.broker.client import Session
from passdown.broker.core.evolve import fold
from passdown.broker.demo.journal import Written
from passdown.broker.demo.ledger import Row, ledger
from passdown.broker.demo.record import Called, Run
from passdown.contracts.codec import encode


def faults_of(run: Run, session: Session, written: list[Written]) -> list[str]:
    """Return how the session's ledger and its part of the journal differ from the record; empty where they agree."""
    expected = run.effects()
    rows = ledger(session)
    found = [
        *ledger_faults(expected, rows),
        *journal_faults(expected, written),
        *_log_faults(session),
    ]
    return [f"{run.key} ({run.session_id}): {fault}" for fault in found]


def _log_faults(session: Session) -> Iterator[str]:
    """Rule 6: folding the log gives exactly the stored state."""
    if encode(fold(session.events())) != encode(session.state()):
        yield "folding the log does not give the stored state"


def ledger_faults(expected: dict[str, Called], rows: list[Row]) -> Iterator[str]:
    """Yield where the rows are not exactly the recorded writes, in order."""
    if [row.key for row in rows] != list(expected):
        shown = [f"{row.tool} {row.key[-6:]}" for row in rows]
        wanted = [f"{call.tool} {key[-6:]}" for key, call in expected.items()]
        yield f"the ledger has {shown}, the record {wanted}"
        return
    for row, call in zip(rows, expected.values(), strict=True):
        if (row.tool, row.args) != (call.tool, call.args):
            yield f"{row.key}: {row.tool} with {row.args} is not the recorded {call.tool} with {call.args}"
        status = "failed" if call.failed else "done"
        if row.status != status:
            yield f"{row.key}: {row.tool} is {row.status}, recorded as {status}"
        elif status == "done" and row.result != call.result:
            yield f"{row.key}: the result of {row.tool} is not the recorded one"


def journal_faults(expected: dict[str, Called], written: list[Written]) -> Iterator[str]:
    """Yield where the outside does not have each recorded write that succeeded exactly once, in order."""
    wanted = [key for key, call in expected.items() if not call.failed]
    if [one.key for one in written] != wanted:
        yield f"the outside has {[one.key for one in written]}, the record {wanted}"
    for one in written:
        if one.calls != 1:
            yield f"{one.key}: {one.tool} was applied {one.calls} times outside"
        call = expected.get(one.key)
        if call and (one.tool, one.args, one.result) != (call.tool, call.args, call.result):
            yield f"{one.key}: the outside has {one.tool} with other arguments or another result"
