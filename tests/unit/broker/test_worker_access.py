"""Rule 10 for workers: what a pool must be allowed before it takes a pack, and that a refused one is not tried again."""

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from passdown.broker.access.directory import Directory, Person
from passdown.broker.access.policy import Scope
from passdown.broker.app import open_store
from passdown.broker.pool import Kind
from passdown.broker.worker import WorkerSpec, run_worker, serve
from passdown.contracts.errors import Denied, Unauthenticated

MODULE = '''
from passdown.agents import Done, agent, tool

@tool("orders.read")
def read_order(order_id: str) -> dict:
    """Read it."""
    return {}

@agent("desk")
def desk(pack, ctx):
    return Done({})
'''


@pytest.fixture
def spec(tmp_path: Path) -> WorkerSpec:
    module = tmp_path / "agents_of_a_desk.py"
    module.write_text(MODULE)
    return WorkerSpec(
        store=f"sqlite:///{tmp_path}/a.db",
        roles=["desk"],
        merge=False,
        modules=[str(module)],
        access="tokens",
    )


def token(spec: WorkerSpec, *scopes: Scope) -> str:
    store = open_store(spec.store)
    directory = Directory(store)
    directory.set_person(Person(name="service:pool", roles=["worker"]))
    text, _ = directory.create_token("service:pool", "user:me", scopes=list(scopes) or None)
    store.close()
    return text


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_rule_10_a_pool_without_a_grant_takes_nothing(spec: WorkerSpec, pool: Kind) -> None:
    spec = replace(spec, pool=pool)
    with pytest.raises(Unauthenticated, match="asks for a token"):
        serve(spec, threading.Event())
    for scope, verb in (
        (Scope(verb="pack.take", resource="role:cashier"), "pack.take role:desk"),
        (Scope(verb="pack.take"), "tool.register"),
        (Scope(verb="tool.register"), "pack.take role:desk"),
    ):
        with pytest.raises(Denied, match=verb):
            serve(replace(spec, token=token(spec, scope)), threading.Event())


def test_a_refused_pool_is_not_started_again(spec: WorkerSpec) -> None:
    """Its process would be refused again: the exit code says so, as that of a command does."""
    assert run_worker(spec) == Denied.exit_code
