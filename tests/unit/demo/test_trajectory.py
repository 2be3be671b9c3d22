"""What a trajectory is: which acts, which result belongs to which call, which key an effect has."""

import json
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.demo.record import Asked, Called, Run, Said, read_run, write_run, writes
from passdown.broker.demo.trajectory import read_runs
from passdown.contracts import ids
from passdown.contracts.errors import ContractError
from tests.acceptance.recorded_oddities import call, result, run, said, user, write_oddities


def read(folder: Path, *runs: dict[str, Any]) -> list[Run]:
    path = folder / "runs.json"
    path.write_text(json.dumps(list(runs)))
    return read_runs(path)


def one(folder: Path, *traj: dict[str, Any]) -> Run:
    return read(folder, run(5, *traj))[0]


def test_a_conversation_becomes_questions_and_calls(tmp_path: Path) -> None:
    found = one(
        tmp_path,
        user("hello"),
        said("name?"),
        user("Ann"),
        said("one moment", call("find", {"name": "Ann"})),
        result("found"),
        said("bye"),
        user("bye"),
    )
    assert found.request == "hello"
    assert found.acts == [
        Asked(message=1, text="name?", answer="Ann"),
        Said(message=3, by="agent", text="one moment"),
        Called(message=3, tool="find", args={"name": "Ann"}, result="found"),
        Asked(message=5, text="bye", answer="bye"),
    ]
    assert found.transfer is None


def test_a_result_belongs_to_the_call_just_before_it_though_ids_repeat(tmp_path: Path) -> None:
    found = one(
        tmp_path,
        said(None, call("a", {}, "same")),
        result("first", "same"),
        said(None, call("b", {}, "same")),
        result("second", "same"),
    )
    assert [(each.tool, each.result) for each in found.calls()] == [("a", "first"), ("b", "second")]


@pytest.mark.parametrize(
    ("ids_of_calls", "results", "expected"),
    [
        (("x", "y"), [("y", "2"), ("x", "1")], ["1", "2"]),
        (("x", "x"), [("x", "1"), ("x", "2")], ["1", "2"]),
        (("x", "y"), [("y", "2")], [None, "2"]),
        (("x", "y"), [("q", "1"), ("r", "2"), ("s", "3")], ["1", "2"]),
        (("x", "y"), [], [None, None]),
    ],
)
def test_several_calls_in_one_message(
    tmp_path: Path, ids_of_calls: tuple[str, str], results: list[tuple[str, str]], expected: list[str | None]
) -> None:
    calls = [call(f"tool{n}", {}, each) for n, each in enumerate(ids_of_calls)]
    found = one(tmp_path, said(None, *calls), *[result(text, each) for each, text in results])
    assert [each.result for each in found.calls()] == expected


def test_texts_that_nobody_answers_have_no_answer(tmp_path: Path) -> None:
    found = one(tmp_path, said("a"), said("b"), user("c"), user("d"), said("e"))
    assert [(act.text, act.answer) for act in found.acts if isinstance(act, Asked)] == [
        ("a", None),
        ("b", "c\n\nd"),
        ("e", None),
    ]


def test_a_transfer_is_no_call(tmp_path: Path) -> None:
    found = one(tmp_path, said(None, call("transfer_to_human_agents", {"summary": "why"})), result("ok"))
    assert (found.acts, found.transfer) == ([], "why")


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        ("no json", {"arguments": "no json"}),
        ("[1]", {"arguments": "[1]"}),
        ('{"big": 99999999999999999999}', {"arguments": '{"big": 99999999999999999999}'}),
        ('{"nan": NaN}', {"arguments": '{"nan": NaN}'}),
        ('{"after": "x"}', {"arguments": {"after": "x"}}),
    ],
)
def test_arguments_that_are_no_object_are_kept_as_text(tmp_path: Path, text: str, args: object) -> None:
    assert one(tmp_path, said(None, call("t", text))).calls()[0].args == args


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("book_reservation", True),
        ("update_reservation_passengers", True),
        ("send_certificate", True),
        ("cancel_order", True),
        ("get_booking", False),
        ("think", False),
        ("update", False),
        ("booking_list", False),
    ],
)
def test_which_tools_write(name: str, is_one: bool) -> None:
    assert writes(name) is is_one


def test_equal_writes_are_effects_of_their_own(tmp_path: Path) -> None:
    args = {"id": 1}
    found = one(
        tmp_path,
        said(None, call("cancel_x", args)),
        result("1"),
        said(None, call("get_x", args)),
        result("-"),
        said(None, call("cancel_x", args)),
        result("Error 2"),
    )
    session = ids.session_id("recorded:5:0")
    assert [(key, each.result, each.failed) for key, each in found.effects().items()] == [
        (ids.effect_id(session, 1, "cancel_x", args, 1), "1", False),
        (ids.effect_id(session, 1, "cancel_x", args, 2), "Error 2", True),
    ]


def test_a_second_run_of_a_task_and_trial_is_a_session_of_its_own(tmp_path: Path) -> None:
    assert [each.key for each in read(tmp_path, run(1), run(1), run(1))] == [
        "recorded:1:0",
        "recorded:1:0#2",
        "recorded:1:0#3",
    ]


def test_what_a_run_cannot_be_replayed_without_is_said_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"at /1/traj/0: the arguments of update_x have more than 32768"):
        read(tmp_path, run(1), run(2, said(None, call("update_x", {"text": "x" * 40_000}))))
    with pytest.raises(ContractError, match="101 different tools"):
        read(tmp_path, run(1, *[said(None, call(f"tool{n}", {})) for n in range(101)]))
    with pytest.raises(ContractError, match="at /0/traj: it asks so often"):
        read(tmp_path, run(1, *[said("?") for _ in range(1000)]))
    with pytest.raises(ContractError, match="it cannot be read"):
        read_runs(tmp_path / "nowhere.json")


def test_a_run_is_read_back_by_its_digest(tmp_path: Path) -> None:
    for each in read_runs(write_oddities(tmp_path)):
        path, sha, size = write_run(tmp_path, each)
        assert read_run(path, sha) == each
        assert path.stat().st_size == size
        path.write_bytes(path.read_bytes() + b" ")
        with pytest.raises(ContractError, match="its digest is not the one that the pack names"):
            read_run(path, sha)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not UTF-8 JSON"),
        (b"\xff\xfe\x00", "not UTF-8 JSON"),
        (b"[" * 100_000, "not UTF-8 JSON"),
        (b"{}", "expected a list of at least one run"),
        (b"[]", "expected a list of at least one run"),
        (b"[1]", "at /0: expected a run, got 1"),
        (b'[{"task_id": 1}]', "at /0/traj: expected the list of messages"),
        (b'[{"traj": []}]', "at /0/task_id: expected a number or a string, got None"),
        (b'[{"task_id": 1, "traj": ["hi"]}]', "at /0/traj/0: expected a message, got 'hi'"),
        (b'[{"task_id": 1, "traj": [{"role": "judge"}]}]', "at /0/traj/0/role: expected user, assistant"),
        (
            b'[{"task_id": 1, "traj": [{"role": "user", "content": 5}]}]',
            "at /0/traj/0/content: expected text",
        ),
        (
            b'[{"task_id": 1, "traj": [{"role": "assistant", "tool_calls": [{"function": {}}]}]}]',
            "at /0/traj/0/tool_calls/0/function/name: expected the name of a tool",
        ),
    ],
)
def test_what_is_of_another_format_is_refused_with_its_place(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(ContractError) as refused:
        read_runs(path)
    assert said in str(refused.value)
