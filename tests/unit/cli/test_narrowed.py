"""A token that is narrowed to some things opens nothing that is about the whole store (rule 10)."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from passdown.broker.access.policy import Scope
from passdown.broker.client import Broker, Submission
from passdown.contracts.errors import Conflict, Denied
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk, broker_on, help_plan
from tests.unit.cli.doors import Doors, guarded

#: Commands about one thing, or about a list of what the token covers. All others are about the whole store.
ABOUT_ONE = re.compile(
    "submit|delegate|status|show|list|log|why|replay|tickets|answer|resolve|cancel|pause|resume|retry|inbox"
)


@pytest.fixture
def doors(desk: Desk, tmp_path: Path) -> Iterator[Doors]:
    made = Doors(desk, tmp_path)
    yield made
    made.clean()


def token(doors: Doors, verb: str, resource: str) -> str:
    scopes = [Scope(verb=verb, resource=resource)]
    return doors.directory.create_token("user:operator", "user:me", scopes=scopes)[0]


def test_rule_10_an_operators_token_for_one_queue_makes_no_other_token(
    cli: Cli, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All verbs on one queue: neither tokens nor principals, exports, quarantine or plans are of a queue."""
    monkeypatch.setenv("PASSDOWN_TOKEN", token(doors, "*", "queue:refund-*"))
    before = doors.fingerprint()
    for path in guarded():
        if not ABOUT_ONE.fullmatch(path[0]):
            said = cli(*doors.typed(path), "--store", doors.desk.url)
            assert (said.code, said.out) == (5, ""), (path, said)
    assert doors.fingerprint() == before
    assert cli("replay", "--all", "--store", doors.desk.url).code == 5
    assert cli("resolve", "order-1/1", "approve", "--version", "1", "--store", doors.desk.url).code == 0


def test_rule_10_a_token_for_one_plan_registers_and_shows_no_other(
    cli: Cli, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSDOWN_TOKEN", token(doors, "plan.*", "plan:mail"))
    plan = doors.typed(("plan", "register"))[-1]
    assert cli("plan", "show", "refund", "--store", doors.desk.url).code == 5
    text = token(doors, "plan.*", "plan:mail")
    with broker_on(doors.desk.url) as desk:
        broker = Broker(desk.app, token=text)
        with pytest.raises(Denied, match="plan:help"):
            broker.register(help_plan())
    assert cli("plan", "register", plan, "--store", doors.desk.url).code == 0


def test_rule_10_what_was_decided_is_told_to_those_who_may_read_tickets(doors: Doors) -> None:
    with broker_on(doors.desk.url, "user:human") as broker:
        broker.session("order-1").resolve(1, "approve", version=1)
        with pytest.raises(Conflict, match="no longer open"):
            broker.inbox.claim(doors.session_id, 1)
    with broker_on(doors.desk.url, "user:worker") as broker:
        for call in (
            lambda: broker.inbox.claim(doors.session_id, 1),
            lambda: broker.inbox.show(doors.session_id, 1),
            lambda: broker.inbox.resolve(doors.session_id, 1, "deny"),
            lambda: broker.inbox.show("s0-unknown", 1),
        ):
            with pytest.raises(Denied):
                call()


def test_rule_10_whoever_may_not_submit_is_not_told_which_plans_there_are(doors: Doors) -> None:
    with broker_on(doors.desk.url, "user:human") as broker:
        for call in (
            lambda: broker.submit("unknown", lists={"items": []}),
            lambda: broker.submit_all("unknown", [Submission(lists={"items": []})]),
        ):
            with pytest.raises(Denied):
                call()
