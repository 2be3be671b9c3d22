"""People at work on one queue: ``python -m tests.integration.shift STORE JOURNAL SEED NAME…``, until nothing waits.

Each is a thread. They take what comes next or what they saw in a list, decide it, give it back, take tickets over,
doze off, and come back with decisions that are out of date. All that they try and all that they are told goes into a
journal, a line at a time, so that nothing of it is lost with the process.
"""

import json
import os
import random
import secrets
import sys
import threading
import time
from pathlib import Path
from typing import Any

from passdown.broker.client import Broker
from passdown.broker.inbox import Draft, Inbox, TicketView
from passdown.contracts.errors import Conflict, Unavailable

QUEUE = "desk"
#: Leases (seconds): of whoever works on, and of whoever dozes off.
LEASE_S, DOZE_S = 20.0, 0.2
TICK_S = 0.02


class Journal:
    """A file to which several processes append whole lines."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, **line: Any) -> None:
        """Append a line; once this returns it survives the process."""
        os.write(self._file, json.dumps(line).encode() + b"\n")


class Person:
    """Somebody who works until nothing waits."""

    def __init__(self, inbox: Inbox, name: str, journal: Journal, chance: random.Random) -> None:
        self._inbox, self._name, self._journal, self._chance = inbox, name, journal, chance
        self._dozed: list[TicketView] = []

    def work(self) -> None:
        """Work until nothing waits. What must not happen is in the journal, too."""
        try:
            self._work()
        except Exception as error:
            self._journal.note(what="broke", by=self._name, error=repr(error))
            raise

    def _work(self) -> None:
        # An answer that is lost is asked for again.
        while self._inbox.waiting(QUEUE, limit=1):
            try:
                self._turn()
            except Unavailable:
                continue
        for held in self._dozed:
            self._decide(held)

    def _turn(self) -> None:
        if self._dozed and self._chance.random() < 0.5:
            self._decide(self._dozed.pop(0))
            return
        what = self._chance.random()
        if what < 0.05:
            self._take_over()
            return
        if what < 0.2:
            self._claim_listed()
            return
        doze = self._chance.random() < 0.1
        held = self._inbox.next(queue=QUEUE, lease_s=DOZE_S if doze else LEASE_S)
        if held is None:
            time.sleep(TICK_S)
        elif doze:
            self._dozed.append(held)
        else:
            self._at(held)

    def _take_over(self) -> None:
        others = [row for row in self._inbox.waiting(QUEUE, limit=20) if row.holder not in ("", self._name)]
        if not others:
            return
        row = self._chance.choice(others)
        try:
            held = self._inbox.take_over(row.session_id, row.ticket_no, "it takes long")
        except Conflict as error:
            self._told(row.session_id, error)
            return
        self._at(held)

    def _claim_listed(self) -> None:
        """Claim one of a list, which others look at, too."""
        listed = self._inbox.offered(queue=QUEUE, limit=20)
        if not listed:
            return
        row = self._chance.choice(listed)
        try:
            held = self._inbox.claim(row.session_id, row.ticket_no, version=row.version, lease_s=LEASE_S)
        except Conflict as error:
            self._told(row.session_id, error)
            return
        self._at(held)

    def _at(self, held: TicketView) -> None:
        self._look_at_draft(held)
        what = self._chance.random()
        try:
            if what < 0.1:
                self._inbox.keep_draft(held.session_id, held.ticket_no, Draft(note=self._name))
                self._inbox.release(held.session_id, held.ticket_no, lease=held.lease)
                return
            if what < 0.2:
                self._inbox.comment(held.session_id, held.ticket_no, f"{self._name} looks at it")
                held = self._inbox.extend(held.session_id, held.ticket_no, lease=held.lease)
        except Conflict as error:
            self._told(held.session_id, error)
            return
        self._decide(held)

    def _look_at_draft(self, held: TicketView) -> None:
        found = self._inbox.draft(held.session_id, held.ticket_no)
        if found is not None and found.draft.note != self._name:
            self._journal.note(what="leak", by=self._name, note=found.draft.note)

    def _decide(self, held: TicketView) -> None:
        """Decide as it was seen when it was claimed, however long ago that is."""
        nonce = secrets.token_hex(8)
        value = {"by": self._name, "nonce": nonce}
        self._journal.note(what="tries", session=held.session_id, **value)
        try:
            self._inbox.resolve(
                held.session_id,
                held.ticket_no,
                "complete",
                value,
                note=self._name,
                version=held.version,
                lease=held.lease,
            )
        except Conflict as error:
            self._told(held.session_id, error)
            return
        self._journal.note(what="won", session=held.session_id, **value)

    def _told(self, session: str, error: Conflict) -> None:
        self._journal.note(
            what="lost", session=session, by=self._name, winner=error.winner, decided=error.decided
        )


def main() -> None:
    """Let all work at once."""
    store, journal, seed, *names = sys.argv[1:]
    people: list[threading.Thread] = []
    for name in names:
        inbox = Broker.connect(store, transport="memory://", by=name, patience_s=30.0).inbox
        person = Person(inbox, name, Journal(Path(journal)), random.Random(f"{seed} {name}"))
        people.append(threading.Thread(target=person.work, name=name))
    for one in people:
        one.start()
    for one in people:
        one.join()


if __name__ == "__main__":
    main()
