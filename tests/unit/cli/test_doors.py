"""Rule 10 at the command line: every command asks who is there, and nobody gets in without a grant."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from passdown.broker.access.directory import Directory, Person
from passdown.broker.access.policy import Scope
from passdown.broker.access.tokens import new_token
from passdown.broker.client import Session
from passdown.contracts.errors import Denied
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import PRODUCER, Desk, broker_on
from tests.unit.cli.doors import OPEN, Doors, Path_, guarded, paths
from tests.unit.cli.workshop import Workshop, review_plan

#: Commands → the roles that may carry them out, written down a second time. All others: operators only.
ROLES: dict[Path_, str] = {
    ("submit",): "producer",
    ("delegate",): "producer",
    ("status",): "producer human",
    ("show",): "producer human",
    ("list",): "producer human",
    ("log",): "producer human",
    ("why",): "producer human",
    ("replay",): "producer human",
    ("tickets",): "human",
    ("answer",): "producer",
    ("resolve",): "human",
    ("cancel",): "producer",
    ("pause",): "producer",
    ("resume",): "producer",
    ("retry",): "producer",
    ("plan", "check"): "producer worker",
    ("plan", "show"): "producer worker human",
    ("tools", "list"): "producer worker",
    ("tools", "register"): "worker",
}
WHO = {"producer": PRODUCER, "worker": "user:worker", "human": "user:human", "operator": "user:operator"}

#: Flags and environment of somebody who must not get in.
Brought = tuple[list[str], dict[str, str]]


@pytest.fixture
def doors(desk: Desk, tmp_path: Path) -> Iterator[Doors]:
    made = Doors(desk, tmp_path)
    yield made
    made.clean()


def _token(text: str) -> Brought:
    return [], {"PASSDOWN_TOKEN": text}


def _made(doors: Doors, principal: str, **more: float) -> str:
    return doors.directory.create_token(principal, "user:me", expires_s=more.get("expires_s"))[0]


def _other_secret(doors: Doors) -> str:
    """Return a token that is well formed, has the id of a good one, and another secret."""
    good = _made(doors, "user:operator")
    body = good[:17] + new_token()[0][17:60]
    return body + hashlib.sha256(body.encode()).hexdigest()[:6]


def _revoked(doors: Doors) -> str:
    text, token = doors.directory.create_token("user:operator", "user:me")
    doors.directory.revoke_token(token.id)
    return text


def _scoped(doors: Doors, *scopes: Scope) -> str:
    return doors.directory.create_token("user:operator", "user:me", scopes=list(scopes))[0]


REFUSED: dict[str, Callable[[Doors], Brought]] = {
    "known and without a role": lambda _: (["--as", "user:nobody"], {}),
    "a token of somebody without a role": lambda doors: _token(_made(doors, "user:nobody")),
    "a token of somebody unknown": lambda doors: _token(_made(doors, "user:stranger")),
    "no token where one is needed": lambda _: (["--set", "access=tokens"], {}),
    "what is no token": lambda _: _token("pdt_" + "nonsense" * 9),
    "a token of another store": lambda _: _token(new_token()[0]),
    "a token with another secret": lambda doors: _token(_other_secret(doors)),
    "a token that has ended": lambda doors: _token(_made(doors, "user:operator", expires_s=0.001)),
    "a revoked token": lambda doors: _token(_revoked(doors)),
    "a token for another verb": lambda doors: _token(_scoped(doors, Scope(verb="visit.*"))),
    "a token and another name": lambda doors: (
        ["--as", "user:ann"],
        {"PASSDOWN_TOKEN": _made(doors, "user:operator")},
    ),
}


@pytest.mark.parametrize("who", REFUSED)
def test_rule_10_every_command_refuses(
    cli: Cli, doors: Doors, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """Refused with exit code 5, logged without the token, and nothing is changed."""
    flags, environment = REFUSED[who](doors)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    before = doors.fingerprint()
    shared = ["--store", doors.desk.url, "--set", "log_format=json", *flags]
    for path in guarded():
        said = cli(*doors.typed(path), *shared)
        assert (said.code, said.out) == (5, ""), (path, said)
        logged, told = said.err.strip().split("\n")
        assert json.loads(logged)["event"] in ("access.denied", "access.refused"), path
        assert told.startswith("passdown: "), path
        for secret in environment.values():
            assert secret[17:] not in said.err
    assert doors.fingerprint() == before


@pytest.mark.parametrize("role", WHO)
def test_rule_10_each_role_may_what_the_table_says(cli: Cli, doors: Doors, role: str) -> None:
    """Which commands are denied to somebody of a role, each on a copy of the store."""
    doors.know_the_producer()
    said = {
        path: cli(*doors.typed(path), "--store", doors.copy(), "--as", WHO[role]).code for path in guarded()
    }
    assert 70 not in said.values(), said
    allowed = {path for path, code in said.items() if code != 5}
    inboxed = {path for path in guarded() if path[0] == "inbox" and role in ("human", "operator")}
    assert allowed - inboxed == {
        path
        for path in guarded()
        if path[0] != "inbox" and (role == "operator" or role in ROLES.get(path, "").split())
    }
    assert inboxed <= allowed


def test_every_command_is_guarded_or_says_why_not() -> None:
    known = [path for path, _ in paths()]
    assert set(OPEN) <= set(known)
    assert len(known) == len(set(known))


def test_rule_10_nobody_reads_the_session_of_another_producer(cli: Cli, doors: Doors) -> None:
    cli("principal", "set", "user:rival", "--role", "producer", "--store", doors.desk.url)
    for words in (
        ["status"],
        ["show"],
        ["log"],
        ["replay"],
        ["cancel"],
        ["pause"],
        ["list", "--branches-of"],
    ):
        said = cli(*words, "order-1", "--store", doors.desk.url, "--as", "user:rival")
        assert (said.code, said.out) == (5, ""), words
        assert "it belongs to whoever submitted it" in said.err
    listed = cli("list", "--json", "--store", doors.desk.url, "--as", "user:rival")
    assert json.loads(listed.out)["sessions"] == []
    assert cli("replay", "--all", "--store", doors.desk.url, "--as", "user:rival").code == 5


def test_rule_10_a_person_reads_what_they_may_decide_until_it_is_decided(cli: Cli, doors: Doors) -> None:
    cli("principal", "set", "user:other", "--role", "human", "--group", "legal", "--store", doors.desk.url)
    shared = ("--store", doors.desk.url, "--as")
    yes = ["resolve", "order-1/1", "approve", "--version", "1"]
    for words in (["status", "order-1"], yes):
        assert cli(*words, *shared, "user:other").code == 5
    assert cli("status", "order-1", *shared, "user:human").code == 0
    decided = cli(*yes, *shared, "user:human")
    assert (decided.code, decided.err) == (0, "")
    assert decided.out.endswith("/1: approve\n"), (
        "where the session stands now is not theirs to read any more"
    )
    assert cli("status", "order-1", *shared, "user:human").code == 5


def test_rule_10_a_token_for_one_queue_decides_there_and_nowhere_else(
    cli: Cli, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue, code in (("legal", 5), ("refund-*", 0)):
        monkeypatch.setenv(
            "PASSDOWN_TOKEN", _scoped(doors, Scope(verb="ticket.*", resource=f"queue:{queue}"))
        )
        yes = ("resolve", "order-1/1", "approve", "--version", "1")
        assert cli(*yes, "--store", doors.desk.url).code == code


def test_a_token_in_a_file_that_others_may_read_is_refused(cli: Cli, doors: Doors, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(_made(doors, "user:operator"))
    file.chmod(0o644)
    shared = ("--store", doors.desk.url, "--set", f"token_file={file}")
    said = cli("queues", *shared)
    assert (said.code, said.out) == (2, "")
    assert f"chmod 600 {file}" in said.err
    file.chmod(0o600)
    assert cli("queues", *shared).code == 0


def test_rule_10_a_branch_belongs_to_whoever_submitted_its_root(workshop: Workshop) -> None:
    session = workshop.submit(review_plan())
    workshop.settle()
    branch = session.branch("ann").id
    directory = Directory(workshop.broker.app.store)
    for name in (PRODUCER, "user:rival"):
        directory.set_person(Person(name=name, roles=["producer"]))
    with broker_on(workshop.url) as broker:
        assert broker.session(branch).state().parent is not None
        broker.session(branch).pause()
    with broker_on(workshop.url, "user:rival") as broker, pytest.raises(Denied):
        Session(broker, branch).cancel()
