from typing import Any

import pytest

from passdown.agents import Absent, Found, Tool, tool
from passdown.contracts.errors import ContractError
from passdown.contracts.tools import tool_digest


def find(order_id: str, *, key: str) -> Found | Absent:
    return Found({"id": f"{order_id} {key}"})


@tool(
    "refunds.create",
    scope="refunds:write",
    owner="payments",
    effect=True,
    identity=["order_id"],
    verify=find,
    dedupes=True,
    repeatable=True,
)
def create_refund(order_id: str, cents: int = 100, *, key: str) -> dict[str, str]:
    """Pay an order back.

    Once.
    """
    return {"id": f"{order_id}-{cents}-{key}"}


@tool("orders.read", fresh_for="5m")
async def read_order(order_id: str) -> dict[str, str]:
    return {"id": order_id}


def test_the_specification_says_what_was_declared():
    spec = create_refund.spec
    assert (spec.name, spec.scope, spec.owner) == ("refunds.create", "refunds:write", "payments")
    assert (spec.effect, spec.identity, spec.dedupes, spec.repeatable, spec.verifies) == (
        True,
        ["order_id"],
        True,
        True,
        True,
    )
    assert spec.description == "Pay an order back.\n\nOnce."
    assert isinstance(spec.params, dict)
    assert set(spec.params["properties"]) == {"order_id", "cents"}
    assert create_refund.digest == tool_digest(spec)
    assert read_order.spec.fresh_for_seconds == 300.0


def test_a_tool_is_still_a_function():
    assert create_refund("o", 5, key="k") == {"id": "o-5-k"}
    assert isinstance(create_refund, Tool)
    assert read_order.is_async
    assert not create_refund.is_async


def test_defaults_are_filled_in_so_that_both_ways_to_say_it_are_one_effect():
    assert create_refund.fill({"order_id": "o"}) == {"order_id": "o", "cents": 100}


def test_verify_gets_the_arguments_that_it_names():
    assert create_refund.verify_keywords({"order_id": "o", "cents": 5}, "k") == {"order_id": "o", "key": "k"}

    def takes_all(**given: Any) -> Absent:
        return Absent()

    @tool("a.b", effect=True, verify=takes_all)
    def ab(x: int, *, key: str) -> None: ...

    assert ab.verify_keywords({"x": 1}, "k") == {"x": 1, "key": "k"}


def writes(x: int, *, key: str) -> None: ...
def keyless(x: int) -> None: ...
def key_by_position(x: int, key: str) -> None: ...
def verify_of_another(y: int, *, key: str) -> Absent:
    return Absent()


def verify_by_position(x: int, /) -> Absent:
    return Absent()


@pytest.mark.parametrize(
    ("fn", "options", "says"),
    [
        (keyless, {"identity": ["x"]}, "identity= is for tools with effect=True"),
        (keyless, {"verify": find}, "verify= is for tools with effect=True"),
        (keyless, {"dedupes": True}, "dedupes= is for tools with effect=True"),
        (keyless, {"repeatable": True}, "repeatable= is for tools with effect=True"),
        (keyless, {"effect": True}, "keyword-only argument `key: str`"),
        (key_by_position, {"effect": True}, "keyword-only argument `key: str`"),
        (writes, {"effect": True, "fresh_for": "5m"}, "fresh_for= is for reading tools"),
        (writes, {"effect": True, "identity": ["y"]}, "identity= names 'y', which is no parameter"),
        (writes, {"effect": True, "verify": verify_of_another}, "verify= needs 'y'"),
        (writes, {"effect": True, "verify": verify_by_position}, "by position"),
        (keyless, {"fresh_for": "soon"}, "fresh_for of tool 't'"),
        (keyless, {"params": {"type": 9}}, "JSON Schema"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_a_clear_error(fn: Any, options: dict[str, Any], says: str):
    with pytest.raises(ContractError, match=says):
        tool("t", **options)(fn)


@pytest.mark.parametrize("name", ["", "a b", "a:b", ".a", "x" * 200, "a\n"])
def test_names_are_plain(name: str):
    with pytest.raises(ContractError, match="a tool's name"):
        tool(name)


def test_a_parameter_called_key_is_an_ordinary_one_of_a_reading_tool():
    @tool("kv.get")
    def get(key: str) -> str:
        return key

    assert isinstance(get.spec.params, dict)
    assert get.spec.params["required"] == ["key"]


def test_a_large_description_is_cut():
    def fn() -> None: ...

    fn.__doc__ = "x" * 100_000
    assert len(tool("t")(fn).spec.description) < 2100
