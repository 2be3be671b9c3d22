"""Who acts: by a token, by name, or as the owner of an embedded store; and the log of what was refused."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import LogCapture

from passdown.broker.access.acting import Acting, acting_on, token_from, token_of, warn_of_no_tokens
from passdown.broker.access.directory import Directory, Person
from passdown.broker.access.policy import Scope
from passdown.broker.core.given import Who
from passdown.broker.settings import Settings
from passdown.broker.stores.base import Store
from passdown.contracts.errors import ContractError, Denied, Unauthenticated
from tests.conformance.building import Clock

ANN = Person(name="user:ann", roles=["human"], groups=["a"], skills=["french"])


def acts(store: Store, **more: Any) -> Acting:
    given: dict[str, Any] = {"principal": "user:me", "embedded": True, **more}
    return acting_on(store, **given)


@pytest.mark.parametrize("embedded", [True, False])
def test_without_tokens_whoever_opens_the_store_owns_it(store: Store, embedded: bool) -> None:
    """As it was before there were tokens, also on a Redis server."""
    acting = acts(store, embedded=embedded)
    assert (acting.by, acting.who, acting.sees_all) == ("user:me", None, True)
    acting.require("token.manage")


@pytest.mark.parametrize("embedded", [True, False])
def test_rule_10_who_is_known_has_what_is_known(
    store: Store, directory: Directory, embedded: bool, logged: LogCapture
) -> None:
    directory.set_person(ANN)
    acting = acts(store, principal="user:ann", embedded=embedded)
    assert acting.who == Who(frozenset({"a"}), frozenset({"french"}))
    assert not acting.sees_all
    acting.require("ticket.claim", "queue:a")
    assert logged.entries == []
    with pytest.raises(Denied):
        acting.require("plan.register")
    [entry] = logged.entries
    assert (entry["event"], entry["log_level"]) == ("access.denied", "warning")
    assert (entry["by"], entry["verb"], entry["what"]) == ("user:ann", "plan.register", "plan.register")
    assert entry["why"].startswith("it takes the role operator")


def test_on_a_shared_store_everybody_needs_a_token_once_there_is_one(
    store: Store, directory: Directory, logged: LogCapture
) -> None:
    directory.create_token("user:ann", "user:me")
    with pytest.raises(Unauthenticated, match="`passdown token create`"):
        acts(store, embedded=False)
    assert [(one["event"], one["claimed"]) for one in logged.entries] == [("access.refused", "user:me")]
    assert acts(store, embedded=True).sees_all, "whoever can open a file needs none"
    with pytest.raises(Unauthenticated, match="access=auto"):
        acts(store, mode="tokens")


def test_a_token_says_who_acts_and_how_far(store: Store, directory: Directory) -> None:
    directory.set_person(ANN)
    text, _ = directory.create_token(
        "user:ann", "user:me", scopes=[Scope(verb="ticket.*", resource="queue:a")]
    )
    acting = acts(store, token=text, embedded=False)
    assert (acting.by, acting.who) == ("user:ann", ANN.who)
    acting.require("ticket.claim", "queue:a")
    for verb, queue in (("ticket.claim", "queue:b"), ("plan.read", "queue:a")):
        with pytest.raises(Denied, match="the token is good for"):
            acting.require(verb, queue)  # type: ignore[arg-type]
    assert acting.covers("ticket.claim", "queue:a")
    assert not acting.covers("ticket.claim", "queue:b")


def test_a_token_of_somebody_unknown_opens_nothing(store: Store, directory: Directory) -> None:
    text, _ = directory.create_token("user:gone", "user:me")
    with pytest.raises(Denied, match="has no role here"):
        acts(store, token=text).require("plan.read")


def test_a_token_and_another_name_do_not_go_together(store: Store, directory: Directory) -> None:
    text, token = directory.create_token("user:ann", "user:me")
    assert acts(store, token=text, principal="user:ann", named=True).by == "user:ann"
    assert acts(store, token=text, principal="user:bob").by == "user:ann"
    with pytest.raises(Unauthenticated, match=r"of user:ann, and --as says user:bob"):
        acts(store, token=text, principal="user:bob", named=True)
    assert token.principal == "user:ann"


def test_rule_10_each_token_that_is_not_good_is_refused_and_logged_by_its_id_only(
    store: Store, directory: Directory, clock: Clock, logged: LogCapture
) -> None:
    expired, first = directory.create_token("user:ann", "user:me", expires_s=1)
    revoked, second = directory.create_token("user:ann", "user:me")
    stranger, third = Directory(store).create_token("user:ann", "user:me")
    directory.revoke_token(second.id)
    clock.now += 1000
    other = stranger.replace(third.id, first.id)
    for text, token_id in ((expired, first.id), (revoked, second.id), (other, ""), (stranger[:-1], "")):
        logged.entries.clear()
        with pytest.raises(Unauthenticated) as caught:
            acts(store, token=text)
        [entry] = logged.entries
        assert (entry["event"], entry["token"]) == ("access.refused", token_id)
        assert text[17:60] not in f"{entry} {caught.value!r} {caught.value}"


def test_somebody_else_is_known_or_is_not(store: Store, directory: Directory) -> None:
    acting = acts(store)
    assert acting.who_of("user:bob") is None, "where nobody is known everybody may be given a ticket"
    directory.set_person(ANN)
    assert acting.who_of("user:ann") == ANN.who
    directory.set_person(Person(name="user:olga", roles=["human", "operator"]))
    assert acting.who_of("user:olga") is None, "operators need no group"
    directory.set_person(Person(name="service:x", roles=["worker"]))
    for name in ("user:bob", "service:x"):
        with pytest.raises(Denied, match="takes tickets"):
            acting.who_of(name)


def test_a_store_without_tokens_is_said_to_be_open(
    store: Store, directory: Directory, logged: LogCapture
) -> None:
    warn_of_no_tokens(store, embedded=True)
    assert logged.entries == []
    warn_of_no_tokens(store, embedded=False)
    assert [one["event"] for one in logged.entries] == ["access.open"]
    directory.create_token("user:ann", "user:me")
    warn_of_no_tokens(store, embedded=False)
    assert len(logged.entries) == 1


def file(folder: Path, text: bytes = b"pdt_x\n", mode: int = 0o600) -> str:
    path = folder / "token"
    path.write_bytes(text)
    path.chmod(mode)
    return str(path)


def test_a_token_comes_from_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = file(tmp_path)
    assert token_from(path) == "pdt_x"
    assert token_of(Settings(token_file=path)) == "pdt_x"
    assert token_of(Settings(token_file=path, token="pdt_y")) == "pdt_y"
    assert token_of(Settings()) == ""


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (b"pdt_x", 0o640, "chmod 600"),
        (b"pdt_x", 0o604, "chmod 600"),
        (b"", 0o600, "it is empty"),
        (b"\xff\xfe", 0o600, "it is no text"),
    ],
)
def test_rule_11_a_file_that_will_not_do_is_refused(tmp_path: Path, text: bytes, mode: int, why: str) -> None:
    with pytest.raises(ContractError, match=why):
        token_from(file(tmp_path, text, mode))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="No such file"):
        token_from(str(tmp_path / "token"))
    assert list(tmp_path.iterdir()) == []
