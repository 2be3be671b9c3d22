from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from passdown.broker.plans import wording


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = ""
    number: float = 0
    flag: Annotated[bool, Field(strict=True)] = True
    listed: list[str] = []
    table: dict[str, int] = {}
    choice: Literal["a", "b"] = "a"
    short: Annotated[str, Field(max_length=3)] = ""
    inner: "Model | None" = None


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"text": 5}, "text: expected a string, got 5"),
        ({"number": "x"}, "number: expected a number, got 'x'"),
        ({"flag": 1}, "flag: expected true or false, got 1"),
        ({"listed": "x"}, "listed: expected a list, got 'x'"),
        ({"listed": [1]}, "listed[0]: expected a string, got 1"),
        ({"table": []}, "table: expected a table, got a list"),
        ({"table": {"a.b": "x"}}, "table.\"a.b\": expected an integer, got 'x'"),
        ({"choice": "c"}, "choice: expected 'a' or 'b', got 'c'"),
        ({"short": "long!"}, "short: String should have at most 3 characters, got 'long!'"),
        ({"inner": 5}, "inner: expected a table, got 5"),
        ({"inner": {"bogus": 1}}, "inner.bogus: unknown field; mend it"),
    ],
)
def test_pydantics_errors_in_our_words(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Model.model_validate(given)
    assert [str(one) for one in wording.faults_of(caught.value, lambda loc: "mend it")] == [fault]


def test_tags_of_unions_are_no_part_of_a_place() -> None:
    error: Any = {"loc": ("stages", "a", wording.ROLE_TAG, "tools", 1, wording.TABLE_TAG, "tool")}
    assert wording.path_of(error) == ("stages", "a", "tools", 1, "tool")
    assert wording.path_of({"loc": ("stages", "[key]", "[key]")}) == ("stages", "[key]")  # pyright: ignore[reportArgumentType]
