"""Whatever bytes come, every reader gives a message or a ContractError, within bounded time and memory."""

import tracemalloc
from collections.abc import Callable
from typing import Any, cast, get_args

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from passdown.broker.core.state import State
from passdown.broker.schemas import command_examples, event_examples, examples
from passdown.contracts import commands, gateway, problems, replies
from passdown.contracts.codec import check, check_spec, convert, decode_any, encode
from passdown.contracts.errors import BudgetExceeded, ContractError
from passdown.contracts.events import Event, Logged
from passdown.contracts.pack import Pack, read_pack
from passdown.contracts.plans import Plan
from passdown.contracts.pointers import POINTER_LIMIT, PROBLEM_LIMIT
from passdown.contracts.replies import read_reply
from passdown.contracts.returns import Return, read_return
from passdown.contracts.tools import ToolSpec
from tests.unit.contracts.helpers import JSON, seconds

FUZZ = settings(deadline=None, max_examples=150)

KINDS: list[Any] = [
    Pack,
    Return,
    Event,
    Logged,
    Plan,
    ToolSpec,
    State,
    commands.Body,
    replies.Reply,
    problems.Problem,
    gateway.Taking,
    gateway.Claim,
    gateway.AgentInfo,
    *get_args(Return),
    *get_args(Event),
    *get_args(commands.Body),
    *get_args(replies.Reply),
]
SAMPLES: list[Any] = [
    examples.PACK,
    examples.PLAN,
    examples.STATE,
    examples.TOOL,
    examples.PROBLEM,
    *examples.RETURNS,
    event_examples.LOGGED,
    *event_examples.EVENTS,
    *command_examples.COMMANDS,
    *command_examples.REPLIES,
]
#: Small pieces that JSON text is made of, so that random bytes come near it.
PIECES = st.sampled_from(
    [
        *b'{}[],:"\\0123456789.eE+-tfn \n\x00\xff',
        b"null",
        b"true",
        b"NaN",
        b"1e999",
        b"\\ud800",
        b"\xed\xa0\x80",
        b'"spec"',
        b'"passdown.return/1"',
        b'"passdown.pack/1"',
        b'"result":"done"',
        b'"a":',
        b"[" * 70,
        b'{"a":' * 70,
        b"9" * 5_000,
    ]
).map(lambda piece: bytes([piece]) if isinstance(piece, int) else piece)
BYTES = st.binary(max_size=300) | st.lists(PIECES, max_size=40).map(b"".join)


def ends_well(act: Callable[[], object]) -> bool:
    """Say whether `act` succeeds; the only other end that it may have is a bounded ContractError."""
    refusal: ContractError | None = None
    try:
        act()
    except ContractError as error:
        refusal = error
    if refusal is None:
        return True
    assert len(refusal.problem) <= PROBLEM_LIMIT + 100
    assert len(refusal.pointer) <= POINTER_LIMIT + 1
    encode([str(refusal), refusal.pointer])
    return False


@given(BYTES)
@example(b"[" * 5_000_000)
@example(b'{"spec":"passdown.return/1","a":' * 200_000)
@FUZZ
def test_any_bytes(data: bytes) -> None:
    for read in (read_pack, read_return, read_reply):
        ends_well(lambda read=read: read(data))
    ends_well(lambda: check_spec(data, "passdown.pack/1", what="message"))
    for kind in (object, *KINDS[:13]):
        ends_well(lambda kind=kind: decode_any(data, kind, budget=65_536))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: getattr(kind, "__name__", "union"))
def test_any_bytes_as_any_kind(kind: Any) -> None:
    for data in (
        b"",
        b"\xff",
        b"{",
        b"[" * 100_000,
        b"null",
        b"{}",
        b"[]",
        b'{"":{}}',
        b'{"type":1}',
        b"1e400",
    ):
        assert not ends_well(lambda data=data: decode_any(data, kind)) or data == b"{}"


NAMES = st.sampled_from(sorted({name for one in SAMPLES for name in msgspec.to_builtins(one)}))


@given(st.sampled_from(SAMPLES), st.dictionaries(NAMES | st.text(max_size=3), JSON, max_size=3), st.data())
@FUZZ
def test_samples_with_changed_fields(sample: Any, changes: dict[str, Any], chance: st.DataObject) -> None:
    fields: dict[str, Any] = msgspec.json.decode(encode(sample))
    dropped = chance.draw(st.sets(st.sampled_from(sorted(fields)), max_size=2))
    changed = {**{name: value for name, value in fields.items() if name not in dropped}, **changes}
    data = encode(changed)
    kind = cast("Any", type(sample))
    accepted = ends_well(lambda: decode_any(data, kind))
    assert accepted == ends_well(lambda: convert(changed, kind))
    if accepted:  # what was accepted is whole: it is written back and read again as the same
        found = decode_any(data, kind)
        assert decode_any(encode(found), kind) == found
    for read in (read_pack, read_return, read_reply):
        ends_well(lambda read=read: read(data))


@given(st.sampled_from(SAMPLES), st.integers(0, 10_000), st.sampled_from([*b'{}[]",:0\x00\xff\\e']))
@FUZZ
def test_samples_with_a_changed_byte(sample: Any, place: int, byte: int) -> None:
    data = bytearray(encode(sample))
    data[place % len(data)] = byte
    ends_well(lambda: decode_any(bytes(data), type(sample)))
    for read in (read_pack, read_return, read_reply):
        ends_well(lambda read=read: read(bytes(data)))


@given(JSON)
@FUZZ
def test_any_json(value: Any) -> None:
    data = encode(value)
    for kind in KINDS:
        ends_well(lambda kind=kind: decode_any(data, kind))
        ends_well(lambda kind=kind: convert(value, kind))
    assert ends_well(lambda: check(value, what="value"))


HOSTILE = [
    b"[" * 60_000,
    b'{"a":' * 10_000,
    b"[" + b"[]," * 20_000 + b"[]]",
    b"[" + b"[]," * 80 + b'"' + b'\\"' * 30_000,
    b'{"' + b"k" * 60_000 + b'":1}',
    b'{"spec":"passdown.return/1",' + b",".join(b'"k%d":1' % n for n in range(6_000)) + b"}",
    b'{"spec":"passdown.return/' + b"9" * 60_000 + b'"}',
    b'{"spec":"passdown.return/1","result":"' + b"x" * 60_000 + b'"}',
    b'{"spec":"passdown.return/1","usage":{' + b",".join(b'"k%d":[]' % n for n in range(5_000)) + b"},\xff",
    b'{"spec":"passdown.pack/1","stages":{' + b",".join(b'"k%d":{}' % n for n in range(5_000)) + b"}}",
    b"9" * 65_000,
    b"-" + b"0." + b"0" * 65_000 + b"1",
    b'"' + b"\\u0000" * 10_000 + b'"',
    b'"' + b"\\ud800" * 10_000 + b'"',
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_bytes_within_the_budget_cost_little(data: bytes) -> None:
    def read_all() -> None:
        for read in (read_pack, read_return, read_reply):
            ends_well(lambda read=read: read(data))
        for kind in (Plan, State, Logged, commands.Body):
            ends_well(lambda kind=kind: decode_any(data, kind))

    read_all()  # decoders are made at first use
    tracemalloc.start()
    try:
        read_all()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(data) + 1_000_000
    assert seconds(read_all) < 1


def test_a_hundred_megabytes_are_refused_by_their_length_alone() -> None:
    data = bytes(100_000_000)
    for read in (read_pack, read_return):
        with pytest.raises(BudgetExceeded):
            read(data)
        assert seconds(lambda read=read: ends_well(lambda: read(data))) < 0.1
