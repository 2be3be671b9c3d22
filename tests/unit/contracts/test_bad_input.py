"""Rule 11: bad input gets a clear error, whole, with the place (F54); each shape against packs and returns."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from passdown.contracts.codec import MAX_DEPTH, MAX_INTEGER, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.pack import read_pack
from passdown.contracts.returns import DoneReturn, read_return
from tests.unit.contracts.helpers import (
    ODD_TEXTS,
    TAGGED,
    nested,
    raw,
    refused,
    sample_pack,
    sample_return,
    seconds,
)

GOOD = json.dumps(sample_return()).encode()


def done(data: bytes) -> DoneReturn:
    found = read_return(data)
    assert isinstance(found, DoneReturn)
    return found


def with_output(text: bytes) -> bytes:
    """Return a return with this JSON text as its output."""
    return GOOD.replace(b'{"decision": "approve"}', text)


@pytest.mark.parametrize("read", [read_return, read_pack])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\xff\xfe\x00",
        b"null",
        b"true",
        b"17",
        b'"return"',
        b"[]",
        b"[" * 60_000,
        b"[" * 5_000_000,
        b"{}",
        b'{"spec":null}',
        b'{"spec":1}',
        b'{"spec":["passdown.return/1"]}',
        b'{"spec":"passdown.return/1"}',
        b'{"spec":"passdown.pack/1"}',
        b'{"spec":"passdown.pack/2"}',
        b'{"spec":"passdown.state/1"}',
        GOOD[:-1],
        GOOD + b"}",
        GOOD.decode().encode("utf-16"),
        GOOD.decode().encode("utf-32"),
        b"\xef\xbb\xbf" + GOOD,
        GOOD.replace(b"approve", b"appr\xffve"),
        GOOD.replace(b"approve", b"appr\xed\xa0\x80ve"),
        GOOD.replace(b"approve", b"\\ud800"),
        GOOD.replace(b"decision", b"\\udfff"),
        GOOD.replace(b"approve", b"\\x00"),
        GOOD.replace(b"approve", b"a\x00b"),
        GOOD.replace(b'"step"', b"'step'"),
        GOOD.replace(b"null", b"None"),
    ],
    ids=range(31),
)
def test_what_is_no_message_at_all(read: Callable[[bytes], Any], data: bytes) -> None:
    assert seconds(lambda: refused(lambda: read(data))) < 1


FIELDS = ["sessionId", "step", "attempt", "claimId", "result", "nextStep", "packDigest", "stage", "output"]


@pytest.mark.parametrize("field", FIELDS)
def test_the_pointer_names_the_field_that_is_missing(field: str) -> None:
    error = refused(lambda: read_return(raw(sample_return(**{field: ...}))))
    assert str(error) == (
        f"return does not fit its contract at /{field}: Object missing required field `{field}`"
    )
    assert error.pointer == f"/{field}"


def test_a_missing_spec_is_named_too() -> None:
    error = refused(lambda: read_return(raw(sample_return(spec=...))))
    assert error.pointer == "/spec"
    assert error.problem == "expected spec 'passdown.return/1', got none"


@pytest.mark.parametrize(
    ("changes", "pointer", "problem"),
    [
        ({"step": "1"}, "/step", "Expected `int`, got `str`"),
        ({"step": 0}, "/step", "Expected `int` >= 1"),
        ({"step": 1.5}, "/step", "Expected `int`, got `float`"),
        ({"step": True}, "/step", "Expected `int`, got `bool`"),
        ({"step": None}, "/step", "Expected `int`, got `null`"),
        ({"attempt": -1}, "/attempt", "Expected `int` >= 1"),
        ({"claimId": "short"}, "/claimId", "Expected `str` of length >= 8"),
        ({"claimId": "x" * 65}, "/claimId", "Expected `str` of length <= 64"),
        ({"sessionId": ["s0-1"]}, "/sessionId", "Expected `str`, got `array`"),
        ({"result": "finished"}, "/result", "Invalid value 'finished'"),
        ({"result": 1}, "/result", "Expected `str`"),
        ({"nextStep": 3}, "/nextStep", "Expected `str | null`, got `int`"),
        ({"evidence": {}}, "/evidence", "Expected `array`, got `object`"),
        (
            {"evidence": [{"claim": "a", "source": "b"}, {"claim": "a"}]},
            "/evidence/1/source",
            "Object missing",
        ),
        ({"evidence": [{"claim": "a", "source": 1}]}, "/evidence/0/source", "Expected `str`, got `int`"),
        (
            {"evidence": [{"claim": "a", "source": "b", "x/y": 1}]},
            "/evidence/0/x~1y",
            "Object contains unknown",
        ),
        ({"uncertainty": {"level": 1.1}}, "/uncertainty/level", "Expected `float` <= 1.0"),
        ({"confidence": 1}, "/confidence", "Object contains unknown field `confidence`"),
        ({"session_id": "s"}, "/session_id", "Object contains unknown field `session_id`"),
        ({"result": "needs-input"}, "/output", "Object contains unknown field `output`"),
        (
            {"result": "needs-input", "output": ..., "questions": []},
            "/questions",
            "Expected `array` of length >= 1",
        ),
        (
            {"result": "needs-input", "output": ..., "questions": [{"id": "", "text": "?"}]},
            "/questions/0/id",
            "Expected `str` of length >= 1",
        ),
        (
            {"result": "needs-input", "output": ..., "questions": [{"id": "a", "text": "?", "schema": 3}]},
            "/questions/0/schema",
            "Expected `bool | object`, got `int`",
        ),
        ({"spec": "passdown.return/2", "novelty": 1}, "/spec", "spec 'passdown.return/2' is newer"),
        ({"spec": "passdown.return/0"}, "/spec", "expected spec 'passdown.return/1', got"),
        ({"spec": "passdown.pack/1"}, "/spec", "expected spec 'passdown.return/1', got"),
        ({"k" * 60_000: 1}, "/" + "k" * 199 + "…", "Object contains unknown field `" + "k" * 200),
    ],
    ids=range(27),
)
def test_what_does_not_fit_is_named_with_its_place(
    changes: dict[str, Any], pointer: str, problem: str
) -> None:
    error = refused(lambda: read_return(raw(sample_return(**changes))))
    assert error.pointer == pointer
    assert error.problem.startswith(problem)


NOT_FINITE = [
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"nan",
    b"1e400",
    b"-1e400",
    b"1e99999999999",
    b"+1",
    b"01",
    b".5",
]


@pytest.mark.parametrize("number", NOT_FINITE)
@pytest.mark.parametrize("where", [b"%s", b'{"a":[%s]}'])
def test_numbers_that_are_not_finite_json_are_refused(number: bytes, where: bytes) -> None:
    """One rule on every store (FAULTS 71): refused, never turned into null."""
    refused(lambda: read_return(with_output(where % number)))


@pytest.mark.parametrize(
    "number",
    [MAX_INTEGER + 1, -MAX_INTEGER - 1, 2**63, 2**64, 2**64 - 1, -(2**63), 10**100],
)
def test_integers_that_some_readers_would_round_are_refused(number: int) -> None:
    error = refused(lambda: read_return(with_output(b'{"deep":[%d]}' % number)))
    assert (error.pointer, error.problem) == (
        "/output/deep/0",
        "an integer beyond ±(2**53 - 1); send it as a string",
    )
    assert refused(lambda: read_return(raw(sample_return()).replace(b'"step":1', b'"step":%d' % number)))


def test_integers_of_thousands_of_digits_are_refused_soon() -> None:
    data = with_output(b"9" * 60_000)
    assert seconds(lambda: refused(lambda: read_return(data))) < 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"%d" % MAX_INTEGER, MAX_INTEGER),
        (b"%d" % -MAX_INTEGER, -MAX_INTEGER),
        (b"1e-400", 0.0),
        (b"1E2", 100.0),
        (b"1e22", 1e22),
        (b"-0", 0),
        (b'"9007199254740993"', "9007199254740993"),
    ],
)
def test_other_numbers_are_kept(text: bytes, value: object) -> None:
    assert done(with_output(b'{"n":%s}' % text)).output == {"n": value}


def test_minus_zero_is_kept_as_it_is() -> None:
    assert encode(done(with_output(b"-0.0")).output) == b"-0.0"


@pytest.mark.parametrize("text", [text for text in ODD_TEXTS if len(text) < 50_000], ids=ascii)
def test_odd_texts_survive(text: str) -> None:
    output = {"value": text, f"key {text}": [text]}
    found = done(raw(sample_return(output=output)))
    assert found.output == output
    assert done(encode(found)) == found


@pytest.mark.parametrize("value", TAGGED, ids=str)
def test_tagged_objects_survive_as_they_are(value: Any) -> None:
    assert done(raw(sample_return(output=value, usage=value))).output == value


def test_a_line_of_a_megabyte_is_refused_for_its_size_and_nothing_else() -> None:
    with pytest.raises(ContractError, match="its budget is 65536"):
        read_return(raw(sample_return(output="x" * 1_000_000)))


@pytest.mark.parametrize(
    ("old", "new", "pointer"),
    [
        (b'"step": 1', b'"step": 1, "step": 2', "/step"),
        (b'{"decision": "approve"}', b'{"decision": "deny", "decision": "approve"}', "/output/decision"),
        (b'{"decision": "approve"}', b'[1, {"a": {"b/c": 1, "d": 2, "b\\/c": 1}}]', "/output/1/a/b~1c"),
        (b'{"decision": "approve"}', b'{"": 1, "": 1}', "/output/"),
        (b'{"decision": "approve"}', b'{"\\u0061": 1, "a": 1}', "/output/a"),
    ],
)
def test_a_key_twice_is_refused(old: bytes, new: bytes, pointer: str) -> None:
    """Programs differ in which one they take, so such a message means different things on its way."""
    error = refused(lambda: read_return(GOOD.replace(old, new)))
    assert (error.problem, error.pointer) == ("an object has this key twice", pointer)


@pytest.mark.parametrize("name", ["spec", "result"])
def test_not_even_what_tells_the_kind_may_stand_twice(name: str) -> None:
    assert refused(lambda: read_return(b'{"%s":"other",' % name.encode() + GOOD[1:])).pointer == f"/{name}"


def test_equal_keys_in_different_objects_are_fine() -> None:
    assert done(with_output(b'{"a": {"a": 1, "b": [{"a": 2}, {"a": 2}]}}')).output["a"]["a"] == 1


def test_duplicates_are_found_in_linear_time() -> None:
    data = with_output(b"{" + b",".join(b'"%d": 1' % n for n in range(5_000)) + b', "0": 1}')
    error: list[ContractError] = []
    assert seconds(lambda: error.append(refused(lambda: read_return(data)))) < 0.5
    assert error[0].pointer == "/output/0"


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 16, 500, 25_000])
def test_depth_counts_the_whole_return(depth: int) -> None:
    text = b"[" * depth + b"]" * depth
    if depth < MAX_DEPTH:
        assert done(with_output(text)).output
    else:
        assert refused(lambda: read_return(with_output(text))).problem == "nested deeper than 64"


def test_a_pack_may_be_as_deep_as_what_the_broker_wraps_into_it() -> None:
    _, data = sample_pack(inputs=nested(MAX_DEPTH))
    assert read_pack(data).inputs == nested(MAX_DEPTH)
