"""Commands: an act has one id, whoever tries it how often; another act has another (DESIGN §4)."""

import re
from typing import Any, cast, get_args

import msgspec
import pytest

from passdown.broker.schemas.command_examples import COMMANDS
from passdown.contracts import commands as cmd
from passdown.contracts.codec import decode_any, encode
from passdown.contracts.returns import Fence
from tests.unit.contracts.helpers import raw, refused, seconds

KINDS = cast("tuple[type[Any], ...]", get_args(cmd.Body))
FENCE = Fence(step=1, attempt=1, claim_id="claim-0001")
OTHER = Fence(step=1, attempt=1, claim_id="claim-0002")


def act(body: cmd.Body, by: str = "user:ann", session: str = "s0-1") -> str:
    return cmd.command_id(session, body, by)


@pytest.mark.parametrize("body", COMMANDS, ids=[type(body).__name__ for body in COMMANDS])
def test_a_command_is_read_back_and_keeps_its_id(body: cmd.Body) -> None:
    found = decode_any(encode(body), cmd.Body)
    assert found == body
    assert act(found) == act(body)


def test_every_command_has_its_own_tag_and_its_own_id() -> None:
    assert {type(body) for body in COMMANDS} == set(KINDS)
    assert len({kind.__struct_config__.tag for kind in KINDS}) == len(KINDS)
    assert len({act(body) for body in COMMANDS}) == len(COMMANDS)


def test_an_act_in_another_session_is_another_act() -> None:
    for body in COMMANDS:
        assert act(body) != act(body, session="s0-2")


OPENING = next(body for body in COMMANDS if isinstance(body, cmd.OpenBranch))

#: The same act under another content: a conflict, so the id is the same.
SAME: list[tuple[cmd.Body, dict[str, Any]]] = [
    (COMMANDS[0], {"inputs": {"other": 1}, "trace": "x"}),
    (cmd.Claim(fence=FENCE, pack_digest="a"), {"pack_digest": "b", "agent": "x"}),
    (cmd.Release(fence=FENCE), {"reason": "other"}),
    (cmd.Checkpoint(fence=FENCE, number=1, data=1), {"data": 2}),
    (cmd.Intend(fence=FENCE, effect_id="e", tool="t", args={}), {"args": {"a": 1}, "after": "x"}),
    (cmd.Report(effect_id="e", claim_id="c", phase="done"), {"result": 1}),
    (cmd.Settle(fence=FENCE, verdicts=[]), {"verdicts": [cmd.Verdict(effect_id="e", found="absent")]}),
    (cmd.Answer(step=1, attempt=1, id="q", value=1), {"value": 2}),
    (cmd.Resolve(ticket_no=1, resolution="edit"), {"value": {"cents": 1}, "note": "x"}),
    (cmd.Cancel(seen=1), {"reason": "x"}),
    (cmd.Pause(seen=1), {"for_ms": 5}),
    (cmd.Rework(join_id="j", ticket_no=1, feedback="f"), {"feedback": "other"}),
]


@pytest.mark.parametrize(("body", "changes"), SAME, ids=[type(row[0]).__name__ for row in SAME])
def test_the_same_act_with_another_content_has_the_same_id(body: cmd.Body, changes: dict[str, Any]) -> None:
    assert act(msgspec.structs.replace(body, **changes)) == act(body)


#: Another act.
DIFFERENT: list[tuple[cmd.Body, cmd.Body]] = [
    (cmd.Claim(fence=FENCE, pack_digest="a"), cmd.Claim(fence=OTHER, pack_digest="a")),
    (cmd.Claim(fence=FENCE, pack_digest="a"), cmd.Release(fence=FENCE)),
    (cmd.Checkpoint(fence=FENCE, number=1, data=1), cmd.Checkpoint(fence=FENCE, number=2, data=1)),
    (
        cmd.Intend(fence=FENCE, effect_id="e", tool="t", args={}),
        cmd.Intend(fence=OTHER, effect_id="e", tool="t", args={}),
    ),
    (
        cmd.Report(effect_id="e", claim_id="c", phase="done"),
        cmd.Report(effect_id="e", claim_id="c", phase="failed"),
    ),
    (cmd.Give(fence=FENCE, body="{}"), cmd.Give(fence=FENCE, body="[]")),
    (cmd.Give(fence=FENCE, body="{}"), cmd.Fail(fence=FENCE, problem="{}")),
    (cmd.Answer(step=1, attempt=1, id="q", value=1), cmd.Answer(step=1, attempt=2, id="q", value=1)),
    (cmd.Answer(step=1, attempt=1, id="q", value=1), cmd.Answer(step=2, attempt=1, id="q", value=1)),
    (cmd.Resolve(ticket_no=1, resolution="approve"), cmd.Resolve(ticket_no=1, resolution="deny")),
    (
        cmd.Resolve(ticket_no=1, resolution="approve"),
        cmd.Resolve(ticket_no=1, version=2, resolution="approve"),
    ),
    (cmd.Cancel(seen=1), cmd.Cancel(seen=2)),
    (cmd.Cancel(seen=1), cmd.Resume(seen=1)),
    (cmd.Resume(seen=1), cmd.Retry(seen=1)),
    (cmd.Due(kind="lease", subject="a", due_at=1), cmd.Due(kind="lease", subject="a", due_at=2)),
    (cmd.Due(kind="deadline", subject="", due_at=1), cmd.Due(kind="retry-at", subject="", due_at=1)),
    # Whoever opens a branch again finds it opened, whatever they bring; and so with calling it off for another reason.
    (OPENING, msgspec.structs.replace(OPENING, inputs={"other": 1})),
    (msgspec.structs.replace(OPENING, cancel="a"), msgspec.structs.replace(OPENING, cancel="b")),
    # A branch that is called off may be opened by whoever comes later: that is answered, not repeated.
    (OPENING, msgspec.structs.replace(OPENING, cancel="not needed")),
    (
        OPENING,
        msgspec.structs.replace(OPENING, parent=msgspec.structs.replace(OPENING.parent, place=1)),
    ),
    (
        cmd.Rework(join_id="j", ticket_no=1, feedback="f"),
        cmd.Rework(join_id="j", ticket_no=2, feedback="f"),
    ),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_another_act_has_another_id(one: cmd.Body, other: cmd.Body) -> None:
    assert act(one) != act(other)


def test_checkpoints_and_notes_of_a_claim_are_counted_together() -> None:
    notes = cmd.NoteTools(fence=FENCE, number=1, notes=[])
    assert act(notes) == act(cmd.Checkpoint(fence=FENCE, number=1, data=None))


def test_two_people_may_answer_and_resolve_and_the_second_learns_who_was_first() -> None:
    for body in (
        cmd.Answer(step=1, attempt=1, id="q", value=1),
        cmd.Resolve(ticket_no=1, resolution="approve"),
    ):
        assert act(body, by="user:ann") != act(body, by="user:bob")
    for body in (
        cmd.Cancel(seen=1),
        cmd.Give(fence=FENCE, body="{}"),
        cmd.Due(kind="lease", subject="a", due_at=1),
    ):
        assert act(body, by="user:ann") == act(body, by="user:bob")


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        ({"command": "explode"}, "/command"),
        ({}, "/command"),
        ({"command": "cancel"}, "/seen"),
        ({"command": "cancel", "seen": "1"}, "/seen"),
        ({"command": "claim", "fence": {"step": 1, "attempt": 1}, "packDigest": "x"}, "/fence/claimId"),
        ({"command": "submit", "key": "", "plan": {}}, "/key"),
        ({"command": "submit", "key": "k" * 201, "plan": {}}, "/key"),
        ({"command": "submit", "key": "k", "plan": {"name": "p", "version": 1}}, "/plan/digest"),
        ({"command": "due", "kind": "birthday", "subject": "", "dueAt": 1}, "/kind"),
        ({"command": "report", "effectId": "e", "claimId": "c", "phase": "maybe"}, "/phase"),
    ],
)
def test_what_does_not_fit_is_named(data: Any, pointer: str) -> None:
    assert refused(lambda: decode_any(raw(data), cmd.Body, what="command")).pointer == pointer


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("user:ann", True),
        ("agent:cashier@eu", True),
        ("user:" + "x" * 120, True),
        ("user:" + "x" * 121, False),
        ("user:", False),
        ("user: ann", False),
        ("user::ann", False),
        ("User:ann", False),
        ("ann", False),
        ("", False),
        ("user:ann\n", False),
        ("user:a\x00b", True),
    ],
)
def test_a_principal_is_a_kind_and_a_name(name: str, fits: bool) -> None:
    assert bool(re.match(cmd.PRINCIPAL_PATTERN, name)) is fits
    assert seconds(lambda: re.match(cmd.PRINCIPAL_PATTERN, "a" * 100_000)) < 0.5
