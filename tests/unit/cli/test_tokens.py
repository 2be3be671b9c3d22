"""`token` and `principal`: who is known, and by what they prove it."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from passdown.broker.access.tokens import read_token
from tests.servers.redis import RedisServer
from tests.unit.cli.conftest import Cli


@pytest.fixture
def here(cli: Cli, tmp_path: Path) -> Cli:
    """Run commands on a store in a file."""
    return lambda *args: cli(*args, "--store", f"sqlite:///{tmp_path}/a.db")


@pytest.fixture
def there(cli: Cli, redis_server: RedisServer) -> Cli:
    """Run commands on a store that several machines share."""
    return lambda *args: cli(*args, "--store", redis_server.url())


def test_a_token_is_printed_alone_and_once(here: Cli) -> None:
    made = here(
        "token", "create", "user:ann", "--role", "human", "--scope", "ticket.*=queue:a", "--expires", "30d"
    )
    token_id = read_token(made.out).id
    assert made.out == f"{made.out.strip()}\n"
    assert made.err == f"passdown: token {token_id} of user:ann; it cannot be shown again\n"
    [row] = json.loads(here("token", "list", "--json").out)["tokens"]
    assert row["expiresAt"] - row["createdAt"] == 30 * 24 * 3600 * 1000
    assert (row["id"], row["principal"], row["state"], row["revokedAt"]) == (
        token_id,
        "user:ann",
        "good",
        None,
    )
    assert row["scopes"] == [{"verb": "ticket.*", "resource": "queue:a"}]
    for listed in (here("token", "list").out, json.dumps(row)):
        assert made.out.strip()[17:60] not in listed
        assert "hash" not in listed
    assert here("token", "revoke", token_id).out == f"{token_id} of user:ann is revoked\n"
    assert "revoked" in here("token", "list").out
    assert here("token", "revoke", "nobody").code == 3


def test_a_token_goes_into_a_file_that_only_its_owner_reads(here: Cli, tmp_path: Path) -> None:
    file = tmp_path / "token"
    made = here("token", "create", "user:ann", "--role", "human", "--to", file)
    assert (made.code, made.out, file.stat().st_mode & 0o777) == (0, "", 0o600)
    assert read_token(file.read_text()).id in made.err
    again = here("token", "create", "user:ann", "--to", file)
    assert (again.code, "it is there already" in again.err) == (2, True)
    assert len(json.loads(here("token", "list", "--json").out)["tokens"]) == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["ann", "--role", "human"], "expected kind:name"),
        (["user:ann"], "is not known here"),
        (["user:ann", "--role", "human", "--scope", "tickets.*"], "covers no verb"),
        (["user:ann", "--role", "human", "--scope", ""], "covers no verb"),
        (["user:ann", "--role", "human", "--expires", "0s"], "good for no time"),
        (["user:ann", "--role", "king"], "'king' is not one of"),
        (["user:bob", "--role", "operator"], "`passdown principal set` changes that"),
    ],
)
def test_rule_11_what_makes_no_sense_makes_no_token(here: Cli, args: list[str], said: str) -> None:
    here("principal", "set", "user:bob", "--role", "human")
    refused = here("token", "create", *args)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    assert json.loads(here("token", "list", "--json").out)["tokens"] == []
    assert [one["name"] for one in json.loads(here("principal", "list", "--json").out)["principals"]] == [
        "user:bob"
    ]


def test_principals_are_set_listed_and_removed(here: Cli) -> None:
    assert here("principal", "set", "user:ann", "--role", "human", "--group", "b", "--group", "a").out == (
        "user:ann: human\n"
    )
    assert here("principal", "set", "service:x").out == "service:x: no role\n"
    found = json.loads(here("principal", "list", "--json").out)["principals"]
    assert [one["name"] for one in found] == ["service:x", "user:ann"]
    assert found[1]["groups"] == ["a", "b"]
    assert "user:ann" in here("principal", "list").out
    assert here("principal", "remove", "user:ann").code == 0
    assert here("principal", "remove", "user:ann").code == 3


def test_a_shared_store_asks_for_tokens_once_there_is_one_and_never_locks_itself(
    there: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = there("token", "create", "user:ann", "--role", "human")
    assert (first.code, "user:ann must be an operator" in first.err) == (5, True)
    ends = there("token", "create", "user:root", "--role", "operator", "--expires", "1d")
    assert (ends.code, "neither ends nor has scopes" in ends.err) == (5, True)
    assert there("list").code == 0, "as before there was any"
    root = there("token", "create", "user:root", "--role", "operator").out.strip()

    refused = there("list")
    assert (refused.code, refused.out) == (5, "")
    assert "this store asks for a token: PASSDOWN_TOKEN_FILE names its file" in refused.err
    monkeypatch.setenv("PASSDOWN_TOKEN", root)
    assert there("list").code == 0
    assert there("token", "create", "user:ann", "--role", "human", "--expires", "1d").code == 0
    for words in (
        ["token", "revoke", read_token(root).id],
        ["principal", "remove", "user:root"],
        ["principal", "set", "user:root", "--role", "human"],
    ):
        kept = there(*words)
        assert (kept.code, "the last token of an operator" in kept.err) == (4, True)


def test_a_token_that_cannot_be_handed_over_is_not_made(there: Cli, tmp_path: Path) -> None:
    """As the first one of the store it would lock everybody out."""
    said = there("token", "create", "user:root", "--role", "operator", "--to", tmp_path / "gone" / "token")
    assert (said.code, said.out) == (6, "")
    assert json.loads(there("token", "list", "--json").out)["tokens"] == []
    refused = there("token", "create", "user:ann", "--role", "human", "--to", tmp_path / "token")
    assert refused.code == 5
    assert not (tmp_path / "token").exists()


def test_where_all_tokens_are_lost_whoever_has_the_server_begins_anew(
    there: Cli, redis_server: RedisServer
) -> None:
    """As docs/security.md says."""
    there("token", "create", "user:root", "--role", "operator")
    assert there("list").code == 5
    with cast("Any", redis.Redis).from_url(redis_server.url()) as server:
        keys = server.keys("*:record*:token")
        assert len(keys) == 2
        server.delete(*keys)
    assert there("list").code == 0


def test_a_token_is_shown_by_no_command(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "pdt_" + "s" * 62
    monkeypatch.setenv("PASSDOWN_TOKEN", secret)
    for words in (
        ["config"],
        ["config", "--json"],
        ["doctor"],
        ["--set", "token_file=x", "config"],
        ["list"],
    ):
        said = cli(*words)
        assert secret not in said.out + said.err
    assert json.loads(cli("config", "--json").out)["token"] == {
        "value": "(set)",
        "origin": "PASSDOWN_TOKEN",
        "environment": "PASSDOWN_TOKEN",
    }
    assert json.loads(cli("config", "--json", "--set", "access=tokens").out)["token_file"]["value"] == ""
