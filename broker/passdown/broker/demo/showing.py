"""The end of a demo: a table of what happened, what is wrong, and where to look next."""

import shlex
from collections import Counter

from rich.console import Console
from rich.table import Table

from passdown.broker.app import shown_address
from passdown.broker.demo.report import Report

_FAULTS_SHOWN = 10


def show(report: Report, console: Console) -> None:
    """Print the table and what follows from it."""
    table = Table("what", "how many", "of which", title=f"{report.title}: {report.seconds:.1f} s")
    for what, number, parts in _rows(report):
        table.add_row(what, str(number), parts)
    console.print(table)
    for fault in report.faults[:_FAULTS_SHOWN]:
        console.print(f"WRONG: {fault}", markup=False, highlight=False, soft_wrap=True)
    if len(report.faults) > _FAULTS_SHOWN:
        console.print(f"… and {len(report.faults) - _FAULTS_SHOWN} more")
    if report.ok:
        console.print(report.verdict, markup=False, highlight=False, soft_wrap=True)
    console.print("Look further:")
    for command in _next(report):
        console.print(f"  {command}", markup=False, highlight=False, soft_wrap=True)


def _rows(report: Report) -> list[tuple[str, int, str]]:
    counts, fates = report.counts, report.fates
    return [
        ("sessions", counts.sessions.total(), _parts(counts.sessions)),
        ("handoffs", counts.handoffs, "packs claimed by workers"),
        ("results", counts.results.total(), _parts(counts.results)),
        ("effects", counts.effects.total(), _parts(counts.effects)),
        ("writes outside", fates.get("applied", 0), _parts(Counter(fates) - Counter(applied=10**9))),
        ("retries", counts.retries, f"{counts.fenced} late returns refused"),
        ("recovered crashes", counts.lost_claims, _recovered(report)),
        ("tickets", counts.tickets.total(), _parts(counts.tickets)),
        ("tool calls denied", counts.denied, ""),
    ]


def _recovered(report: Report) -> str:
    settled = _parts(report.counts.settled)
    parts = [f"{report.restarts} processes restarted" if report.restarts else ""]
    parts.append(f"{report.freezes} frozen" if report.freezes else "")
    parts.append(f"unknown effects settled: {settled}" if settled else "")
    return "; ".join(part for part in parts if part)


def _parts(counter: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counter.most_common() if number)


def _next(report: Report) -> list[str]:
    store = shlex.quote(shown_address(report.place.store))
    folder = shlex.quote(str(report.place.folder))
    session = report.example
    return [
        f"passdown list --store {store}",
        f"passdown log {session} --store {store}",
        f"passdown replay --all --store {store}",
        f"ls {shlex.quote(str(report.place.logs))}    # what the processes said",
        f"passdown export --store {store} --folder {folder} --out demo.jsonl    # all of it, and what the outside saw",
    ]
