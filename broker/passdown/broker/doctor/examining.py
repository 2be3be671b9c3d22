"""Everything that `passdown doctor` looks at, in order; what does not answer is asked no more."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from passdown.broker.doctor import work
from passdown.broker.doctor.checks import WITHIN_S, Check, looked, within
from passdown.broker.doctor.settings import settings_findings
from passdown.broker.doctor.stores import clock_finding, examination, speed_finding
from passdown.broker.doctor.transports import transport_findings
from passdown.broker.findings import Examination, Finding
from passdown.broker.settings import Loaded
from passdown.broker.stores.base import Store
from passdown.broker.transports.addresses import Transport


@dataclass(frozen=True)
class Patient:
    """What is examined. ``open_store`` and ``transport`` raise as `passdown.broker.app` does."""

    loaded: Loaded
    open_store: Callable[[], Store]
    transport: Callable[[], Transport]
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    within_s: float = WITHIN_S


def examine(patient: Patient) -> Iterator[Finding]:
    """Yield what is found, as it is found. Never raises, and ends: each check has its time limit."""
    yield from settings_findings(patient.loaded, patient.environ)
    yield from _store(patient)
    found, _ = looked(Check("transport", lambda: transport_findings(patient.transport())), patient.within_s)
    yield from found


def _store(patient: Patient) -> Iterator[Finding]:
    opened: list[Store] = []

    def open_it() -> list[Finding]:
        opened.append(patient.open_store())
        return []

    found, answered = looked(Check("store", open_it), patient.within_s)
    yield from found
    if not opened:
        return
    for check in _checks(opened[0], patient.loaded):
        found, answered = looked(check, patient.within_s)
        yield from found
        if not answered:
            what = "not looked at further: it does not answer"
            yield Finding(level="red", what="store", found=what)
            return
    with contextlib.suppress(Exception):  # what is wrong with it was said above
        within(opened[0].close, patient.within_s)


def _checks(store: Store, loaded: Loaded) -> Iterator[Check]:
    settings = loaded.settings
    seen: list[Examination] = []

    def tell() -> list[Finding]:
        seen.append(examination(store))
        return seen[0].findings

    yield Check("store", tell)
    yield Check("store clock", lambda: clock_finding(store))
    yield Check("store speed", lambda: speed_finding(store))
    if seen:
        yield Check("tick", lambda: work.tick_findings(seen[0], settings.tick_every_ms))
        yield Check("outgoing events", lambda: work.telling_findings(seen[0]))
    yield Check("role queues", lambda: work.queue_findings(store))
    yield Check("tickets", lambda: work.ticket_findings(store))
    yield Check("quarantine", lambda: work.quarantine_findings(store))
    yield Check("plans", lambda: work.durability_findings(store, settings.accept_effect_loss))
