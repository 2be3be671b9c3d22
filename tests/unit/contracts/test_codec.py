"""Canonical bytes, their digest, and the way back."""

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passdown.contracts.codec import (
    ENVELOPE_DEPTH,
    MAX_DEPTH,
    Record,
    Wire,
    check_spec,
    clean_text,
    decode,
    decode_any,
    digest,
    digest_of,
    encode,
)
from passdown.contracts.plans import Plan
from passdown.contracts.tools import ToolSpec
from tests.unit.contracts.helpers import JSON, ODD_TEXTS, TAGGED, TEXTS, nested, raw, refused, seconds

ROOT = Path(__file__).parents[3]


class Point(Wire, frozen=True, kw_only=True):
    y_axis: int
    x_axis: int = 0
    labels: dict[str, Any] = {}


class Sparse(Record, frozen=True, kw_only=True):
    name: str
    kind: str = "plain"


@given(JSON)
@settings(deadline=None)
def test_decoding_and_encoding_again_gives_the_same_bytes(value: Any) -> None:
    data = encode(value)
    found = decode_any(data, object)
    assert found == value
    assert encode(found) == data


@given(JSON.filter(lambda value: isinstance(value, dict)), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_keys_does_not_matter(value: dict[str, Any], chance: Any) -> None:
    items = list(value.items())
    chance.shuffle(items)
    assert encode(dict(items)) == encode(value)


@given(JSON)
@settings(deadline=None)
def test_canonical_bytes_have_no_white_space_and_sorted_keys(value: Any) -> None:
    data = encode({"b": value, "a": value})
    assert data == b'{"a":' + encode(value) + b',"b":' + encode(value) + b"}"


def test_fields_of_a_struct_stand_in_the_order_of_their_declaration() -> None:
    point = Point(y_axis=1, labels={"b": 1, "a": 2})
    assert encode(point) == b'{"yAxis":1,"xAxis":0,"labels":{"a":2,"b":1}}'


def test_what_passdown_alone_stores_leaves_defaults_out() -> None:
    assert encode(Sparse(name="x")) == b'{"name":"x"}'
    assert decode(b'{"name":"x"}', Sparse) == Sparse(name="x")


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (-0.0, b"-0.0"),
        (1.0, b"1.0"),
        (1, b"1"),
        (1e22, b"1e22"),
        (5e-324, b"5e-324"),
        (0.1, b"0.1"),
        (2**53 - 1, b"9007199254740991"),
        ("é\x00/", '"é\\u0000/"'.encode()),
        ((1, 2), b"[1,2]"),
    ],
)
def test_how_values_are_written(value: object, data: bytes) -> None:
    assert encode(value) == data


def test_minus_zero_survives() -> None:
    assert math.copysign(1, decode_any(b"-0.0", object)) == -1


@pytest.mark.parametrize("text", ODD_TEXTS, ids=lambda text: ascii(text)[:20])
def test_odd_texts_survive_as_value_and_as_key(text: str) -> None:
    value = {"value": text, text: 1}
    assert decode_any(encode(value), object) == value


@pytest.mark.parametrize("value", TAGGED, ids=str)
def test_tagged_objects_of_other_serializers_are_plain_data(value: Any) -> None:
    assert decode_any(encode(value), object) == value


_IN_A_SUBPROCESS = """
from passdown.broker.schemas import examples, event_examples, command_examples
from passdown.contracts.codec import digest_of, plain
odd = {"set": {"b", "a", "c"}, "keys": {name: 1 for name in {"x", "y", "z"}}}
print(digest_of([examples.PACK, examples.STATE, event_examples.EVENTS, command_examples.COMMANDS, plain(odd, what="x")]))
"""


def test_the_bytes_do_not_depend_on_the_hash_seed() -> None:
    found: set[str] = set()
    for seed in ("0", "1", "2"):
        found.add(
            subprocess.run(
                [sys.executable, "-c", _IN_A_SUBPROCESS],
                env={**os.environ, "PYTHONHASHSEED": seed},
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    assert len(found) == 1
    assert len(found.pop().strip()) == 64


def test_a_digest_is_sha_256_in_hex() -> None:
    assert digest(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest_of({"b": 1, "a": []}) == digest(b'{"a":[],"b":1}')


class _Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value", [object(), 1j, {1: 2}, "\ud800", {"\udfff": 1}, _Text("x"), {"a": {b"k": 1}}], ids=range(7)
)
def test_what_cannot_be_encoded_is_a_contract_error(value: object) -> None:
    assert refused(lambda: encode(value)).what == "data"


def test_a_cycle_is_a_contract_error() -> None:
    circle: list[Any] = []
    circle.append(circle)
    refused(lambda: encode(circle))


def test_encode_alone_turns_nan_into_null_which_is_why_data_is_checked_before() -> None:
    assert encode([math.nan, math.inf, -math.inf]) == b"[null,null,null]"


@pytest.mark.parametrize("depth", [1, MAX_DEPTH, MAX_DEPTH + ENVELOPE_DEPTH])
def test_what_was_stored_is_read_back_within_its_envelopes(depth: int) -> None:
    value = nested(depth)
    assert decode_any(encode(value), object) == value


@pytest.mark.parametrize("depth", [MAX_DEPTH + ENVELOPE_DEPTH + 1, 500, 100_000])
def test_deeper_is_refused(depth: int) -> None:
    pairs = depth // 2
    for data in (b"[" * depth + b"]" * depth, b'{"a":[' * pairs + b"1" + b"]}" * pairs + b" " * 9):
        if data.count(b"[") + data.count(b"{") > MAX_DEPTH + ENVELOPE_DEPTH:
            assert refused(lambda data=data: decode_any(data, object)).problem == "nested deeper than 64"


@given(st.lists(TEXTS, min_size=100, max_size=120))
@settings(deadline=None, max_examples=30)
def test_brackets_in_strings_are_not_depth(texts: list[str]) -> None:
    value = [f'{text}[{{"\\' * 2 for text in texts]
    assert decode_any(encode(value), object) == value


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 5_000_000,
        b"[" * 2_500_000 + b"]" * 2_500_000,
        b"[" + b"[]," * 100 + b'"' + b'\\"' * 2_500_000,
        b"[" + b"[]," * 100 + b'"' * 5_000_000,
        b"[" + b"[]," * 100 + b"\\" * 5_000_000,
        b'{"a":' * 1_000_000,
        (b"[" * 79 + b"]" * 79 + b",") * 31_000,
        b"]" * 5_000_000,
    ],
    ids=range(8),
)
def test_five_megabytes_of_anything_are_refused_soon(data: bytes) -> None:
    assert seconds(lambda: refused(lambda: decode_any(data, object))) < 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not UTF-8 JSON: Input data was truncated"),
        (b"\xff", "not UTF-8 JSON: JSON is malformed: invalid character (byte 0)"),
        (b'{"yAxis":1,"labels":{"a":"\xed\xa0\x80"}}', "not UTF-8 JSON: Invalid UTF-8 encoded string"),
        (b'\xef\xbb\xbf{"yAxis":1}', "not UTF-8 JSON: JSON is malformed: invalid character (byte 0)"),
        ('{"yAxis":1}'.encode("utf-16"), "not UTF-8 JSON: JSON is malformed: invalid character (byte 0)"),
        (b'{"yAxis":1} x', "not UTF-8 JSON: JSON is malformed: trailing characters (byte 13)"),
        (b'{"yAxis":NaN}', "not UTF-8 JSON: JSON is malformed: invalid character (byte 9)"),
        (b'{"yAxis":-Infinity}', "not UTF-8 JSON: JSON is malformed: invalid character (byte 10)"),
    ],
)
def test_what_is_not_json_says_so(data: bytes, said: str) -> None:
    error = refused(lambda: decode(data, Point, what="point"))
    assert (error.what, error.problem, error.pointer) == ("point", said, "")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"spec": "passdown.plan/2", "stages": {}, "novelty": 1}, "spec 'passdown.plan/2' is newer than"),
        ({"spec": "passdown.tool/1", "start": 3}, "expected spec 'passdown.plan/1', got 'passdown.tool/1'"),
        ({"spec": "passdown.plan/0"}, "expected spec 'passdown.plan/1', got 'passdown.plan/0'"),
    ],
)
def test_a_spec_that_is_not_known_is_said_before_all_else(given: dict[str, Any], problem: str) -> None:
    """Otherwise the first unknown field would be blamed, or a newer document would be taken for this one (F53)."""
    error = refused(lambda: decode(raw(given), Plan, what="plan"))
    assert error.problem.startswith(problem)
    assert error.pointer == "/spec"


@pytest.mark.parametrize("kind", [Plan, ToolSpec])
def test_documents_always_say_what_they_are(kind: Any) -> None:
    document: Any = Plan(name="p", start="a", stages={}) if kind is Plan else ToolSpec(name="t", params=True)
    assert decode_any(encode(document), object)["spec"] == document.spec


@pytest.mark.parametrize("spec", ["passdown.pack/1", "passdown.pack/2", "passdown.pack/12"])
def test_older_and_equal_specs_are_read(spec: str) -> None:
    check_spec(raw({"spec": spec, "more": [1]}), "passdown.pack/12", what="pack")


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        (None, "none"),
        ("", "''"),
        ("passdown.return/1", "'passdown.return/1'"),
        ("passdown.pack", "'passdown.pack'"),
        ("passdown.pack/", "'passdown.pack/'"),
        ("passdown.pack/0", "'passdown.pack/0'"),
        ("passdown.pack/01", "'passdown.pack/01'"),
        ("passdown.pack/-1", "'passdown.pack/-1'"),
        ("passdown.pack/1.0", "'passdown.pack/1.0'"),
        ("passdown.pack/1 ", "'passdown.pack/1 '"),
        ("passdown.pack/1\n", "'passdown.pack/1\\n'"),
        ("passdown.pack/\u0661", "'passdown.pack/\u0661'"),
        ("passdown.pack/" + "9" * 5_000, f"'passdown.pack/{'9' * 46}…'"),
        ("x" * 50_000, f"'{'x' * 60}…'"),
    ],
)
def test_other_specs_are_refused(spec: str | None, shown: str) -> None:
    error = refused(lambda: check_spec(raw({"spec": spec}), "passdown.pack/1", what="pack"))
    assert error.problem == f"expected spec 'passdown.pack/1', got {shown}"
    assert error.pointer == "/spec"


def test_a_newer_spec_says_what_to_do() -> None:
    error = refused(lambda: check_spec(raw({"spec": "passdown.pack/13"}), "passdown.pack/12", what="pack"))
    assert error.problem == (
        "spec 'passdown.pack/13' is newer than 'passdown.pack/12', which is the newest that this version reads; upgrade"
    )


@given(st.text(), st.integers(0, 60))
@settings(deadline=None)
def test_clean_text_is_bounded_and_can_always_be_stored(text: str, limit: int) -> None:
    clean = clean_text(text, limit)
    assert len(clean) <= limit
    assert decode_any(encode(clean), object) == clean
    assert clean_text(clean, limit) == clean


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("all is well", "all is well"),
        ("nul \x00 and \u202eRTL", "nul \x00 and \u202eRTL"),
        ("lone \ud800 surrogate", "lone \\ud800 surrogate"),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 77 + "… (24 more characters)"),
        ("\ud800" * 100, ("\\ud800" * 100)[:77] + "… (523 more characters)"),
    ],
    ids=range(6),
)
def test_clean_text_makes_surrogates_visible_and_says_what_it_cut(text: str, clean: str) -> None:
    assert clean_text(text, 100) == clean


def test_a_hundred_megabytes_of_text_cost_nothing() -> None:
    text = "\u20ac" * 100_000_000
    assert seconds(lambda: clean_text(text)) < 0.05


def test_the_decoder_of_a_type_is_made_once() -> None:
    assert decode(b'{"yAxis":1}', Point) == Point(y_axis=1)
    assert seconds(lambda: [decode(b'{"yAxis":1}', Point) for _ in range(10_000)]) < 1


def test_structs_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        setattr(Point(y_axis=1), "y_axis", 2)  # noqa: B010
    assert msgspec.structs.replace(Point(y_axis=1), y_axis=2) == Point(y_axis=2)
