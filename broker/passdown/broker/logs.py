"""Logs: one line an action, with its facts; on stderr, so that answers on stdout stay clean."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog


def set_up_logs(level: str = "info", style: str = "console") -> None:
    """Send structured logs at `level` and above to stderr, for people (``console``) or machines (``json``).

    Other packages' logs come along from ``warning`` on. Raises ValueError for a level that is none.
    """
    levels = logging.getLevelNamesMapping()
    if level.upper() not in levels:
        raise ValueError(f"expected one of {', '.join(levels).lower()}, got {level!r}")
    numeric = levels[level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    for_people = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    ends = [structlog.processors.JSONRenderer()] if style == "json" else [harmless, for_people]
    structlog.configure(
        processors=[*shared, *ends],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=_LinesFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(
        stream=sys.stderr, level=max(numeric, logging.WARNING), format="%(name)s: %(message)s"
    )


def harmless(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Spell out what would move a terminal's cursor, or look like a line of its own: texts come from anywhere."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            kept = "\n\t" if key == "exception" else ""
            event[key] = "".join(
                char if char.isprintable() or char in kept else _spelt(char) for char in value
            )
    return event


def _spelt(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


class _Lines:
    """Writes lines. A log that cannot be written (a full disk, a closed pipe) must stop no work."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, message: str) -> None:
        try:
            self._stream.write(f"{message}\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass

    log = debug = info = warn = warning = error = critical = exception = fatal = msg


class _LinesFactory:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, *_: Any) -> _Lines:
        return _Lines(self._stream)
