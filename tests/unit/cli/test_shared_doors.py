"""Rule 10 on a store that several machines share: once a token was made there, every command asks for a good one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from passdown.broker.access.directory import Directory, Person
from passdown.broker.access.policy import Scope
from passdown.broker.app import open_store
from tests.servers.redis import RedisServer
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk
from tests.unit.cli.doors import Doors, guarded

REFUSED = ("none", "of nobody", "ended", "revoked", "of another verb")


@pytest.fixture
def doors(desk: Desk, tmp_path: Path) -> Iterator[Doors]:
    made = Doors(desk, tmp_path)
    yield made
    made.clean()


def _tokens(url: str) -> dict[str, str]:
    """Make the first token of a store, and others that are not good for anything; returns these."""
    store = open_store(url)
    directory = Directory(store)
    for name, roles in (("user:root", ["operator"]), ("user:nobody", [])):
        directory.set_person(Person(name=name, roles=roles))  # type: ignore[arg-type]
    revoked, kept = directory.create_token("user:root", "user:me")
    directory.revoke_token(kept.id)
    made = {
        "none": "",
        "of nobody": directory.create_token("user:nobody", "user:me")[0],
        "ended": directory.create_token("user:root", "user:me", expires_s=0.001)[0],
        "revoked": revoked,
        "of another verb": directory.create_token("user:root", "user:me", scopes=[Scope(verb="visit.*")])[0],
    }
    store.close()
    return made


def _everything(url: str) -> dict[bytes, bytes]:
    with cast("Any", redis.Redis).from_url(url) as server:
        return {key: server.dump(key) for key in server.scan_iter()}


def test_rule_10_every_command_refuses_on_a_shared_store(
    cli: Cli, doors: Doors, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused with exit code 5, logged without the token, and not a byte in the store is another."""
    url = redis_server.url()
    tokens = _tokens(url)
    before = _everything(url)
    for kind in REFUSED:
        monkeypatch.setenv("PASSDOWN_TOKEN", tokens[kind])
        for path in guarded():
            said = cli(*doors.typed(path), "--store", url)
            assert (said.code, said.out) == (5, ""), (kind, path, said)
            assert "access.denied" in said.err or "access.refused" in said.err, (kind, path)
            assert not tokens[kind] or tokens[kind][17:] not in said.err
    assert _everything(url) == before
