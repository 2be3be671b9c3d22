"""kombu's filesystem transport, made fit for the processes of one machine.

What differs: a message appears whole or not at all, and is taken by exactly one reader (kombu writes into
the file that others may already read, and moves it through the machine's temporary folder); one that
nobody can read is put aside and stops no consumer; of equal hints only a few lie about, so that a role
without workers fills no disk; the folder is made when it is first needed.
"""

import contextlib
import json
import os
import time
from pathlib import Path
from queue import Empty
from typing import Any, cast
from uuid import uuid4

import structlog
from kombu.transport import TRANSPORT_ALIASES, filesystem

from passdown.broker.transports.vetting import Junk, envelope, is_hint, tell

SCHEME = "passdown-folder"
TRANSPORT_ALIASES[SCHEME] = "passdown.broker.transports.folder:Transport"

#: A hint that finds so many of its kind need not be put there as well: whoever reads one of those looks into
#: the store after this.
MOST_LYING = 8
#: How many unreadable messages are kept for inspection.
MOST_JUNK = 16
#: How often a consumer looks (seconds): as late as a bell is heard.
LOOK_EVERY_S = 0.01
#: The longest that a consumer stays in one call (seconds): as late as it hears that it is to stop.
_LONGEST_S = 0.25

_log = structlog.get_logger("passdown.transport")


def options_of(folder: Path) -> dict[str, Any]:
    """Return kombu's options for a folder."""
    return {
        "data_folder_in": str(folder),
        "data_folder_out": str(folder),
        "control_folder": str(folder / "control"),
    }


class Channel(filesystem.Channel):
    """Writes and reads messages as files named ``TIME_ID.QUEUE.msg``."""

    on_junk: Junk | None = None
    from_transport_options = (*filesystem.Channel.from_transport_options, "on_junk")

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._folder = Path(cast("str", self.data_folder_in))
        self._folder.mkdir(parents=True, exist_ok=True)
        self.control_folder.mkdir(exist_ok=True)

    def _put(self, queue: str, payload: Any, **_: Any) -> None:
        if is_hint(payload) and len(self._lying(queue)) >= MOST_LYING:
            return
        name = f"{time.time_ns() // 1000}_{uuid4().hex}"
        hidden = self._folder / f"{name}.part"
        try:
            hidden.write_text(json.dumps(payload), encoding="utf-8")
            hidden.rename(self._folder / f"{name}.{queue}.msg")
        except OSError:
            with contextlib.suppress(OSError):
                hidden.unlink(missing_ok=True)
            raise

    def _get(self, queue: str, timeout: float | None = None) -> Any:  # noqa: ARG002 - kombu's signature
        for name in self._lying(queue):
            path = self._folder / name
            try:
                data = path.read_bytes()
                path.unlink()
            except FileNotFoundError:
                continue  # somebody else has it
            payload = self._read(queue, name, data)
            if payload is not None:
                return payload
        raise Empty

    def _read(self, queue: str, name: str, data: bytes) -> Any:
        """Return the message in a file; what is none is put aside."""
        try:
            return envelope(self, data)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the next one may be fine
            self._keep(name, data)
            tell(self.on_junk, queue, data, f"not a message: {error!r}"[:300])
            return None

    def _keep(self, name: str, data: bytes) -> None:
        if sum(one.endswith(".junk") for one in self._names()) < MOST_JUNK:
            with contextlib.suppress(OSError):
                (self._folder / f"{name}.junk").write_bytes(data)

    def _size(self, queue: str) -> int:
        return len(self._lying(queue))

    def _purge(self, queue: str) -> int:
        names = self._lying(queue)
        for name in names:
            (self._folder / name).unlink(missing_ok=True)
        return len(names)

    def _names(self) -> list[str]:
        with os.scandir(self._folder) as entries:
            return [entry.name for entry in entries]

    def _lying(self, queue: str) -> list[str]:
        """Return the files that hold messages of a queue, oldest first."""
        wanted = f"{queue}.msg"
        return sorted(name for name in self._names() if name.partition(".")[2] == wanted)


class Transport(filesystem.Transport):
    """Looks into the folder a hundred times a second, which costs a thousandth of a processor."""

    Channel = Channel

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        #: When the folder was last looked into, `time.monotonic()`.
        self.heard = time.monotonic()

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:  # noqa: ARG002 - kombu's signature
        """Deliver one message; raises `socket.timeout` where none came within `timeout` seconds, or a part of them."""
        ends = time.monotonic() + (_LONGEST_S if timeout is None else min(timeout, _LONGEST_S))
        while True:
            self.heard = time.monotonic()
            try:
                cast("Any", self).cycle.get(self._deliver, timeout=timeout)
            except Empty:
                if time.monotonic() >= ends:
                    raise TimeoutError from None
                time.sleep(LOOK_EVERY_S)
            else:
                return

    def cut(self, _connection: Any) -> None:
        """Do nothing: there is no connection that could hang."""
