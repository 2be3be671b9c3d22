import time

import pytest

from passdown.broker.cli import words


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢", "plain ü 漢"),
        ("two\nlines\tand\r\n", "two lines and  "),
        ("\x1b[31mred\x07\x00", "\\x1b[31mred\\x07\\x00"),
        ("\u202eevil", "\\u202eevil"),
        ("\u2028", " "),
    ],
)
def test_text_of_others_cannot_steer_a_terminal(text: str, shown: str) -> None:
    assert words.clean(text) == shown
    assert words.clean(text).isprintable()


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (-5, "0ms"),
        (0, "0ms"),
        (99, "99ms"),
        (100, "0.1s"),
        (1949, "1.9s"),
        (5000, "5s"),
        (9999, "10s"),
        (10_000, "10s"),
        (59_999, "59s"),
        (61_000, "1m1s"),
        (3_600_000, "1h"),
        (3_661_000, "1h1m"),
        (90_061_000, "1d1h"),
        (8_640_000_000, "100d"),
    ],
)
def test_a_duration_has_two_units_at_most(ms: int, shown: str) -> None:
    assert words.span(ms) == shown


def test_times_are_shown_in_local_time() -> None:
    at = 1_795_964_681_077
    assert words.when(at) == "2026-11-29 15:04:41"
    assert words.clock(at) == "15:04:41.077"
    assert words.iso(at) == "2026-11-29T15:04:41.077+00:00"
    assert words.ago(at, at + 90_000) == "1m30s ago"
    assert words.ago(at, at - 90_000) == "in 1m30s"


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (3 * 1024**2, "3.0 MiB")],
)
def test_sizes(count: int, shown: str) -> None:
    assert words.size(count) == shown


def test_counts_have_their_noun() -> None:
    assert [words.many(n, "event") for n in (0, 1, 2, 2000)] == [
        "0 events",
        "1 event",
        "2 events",
        "2,000 events",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one", "one"),
        ("one\ntwo", "one …"),
        ("\n one \n", "one"),
        ("", ""),
        ("x" * 400 + "\ny", "x" * 299 + "…"),
    ],
)
def test_of_a_longer_text_its_first_line_is_shown(text: str, shown: str) -> None:
    assert words.line(text) == shown


def test_a_long_value_is_cut() -> None:
    assert words.brief({"a": 1}) == '{"a":1}'
    assert len(words.brief("x" * 1000)) == words.VALUE_SHOWN
    assert words.brief("x" * 1000).endswith("…")
    assert words.brief("a\nb") == '"a\\nb"'
