"""A store that asks for tokens keeps an operator who has one."""

import pytest

from passdown.broker.access.directory import Directory, Person
from passdown.broker.access.operators import KeptDirectory, directory_of, require_first, require_left
from passdown.broker.access.policy import Scope
from passdown.broker.stores.sqlite import SqliteStore
from passdown.contracts.errors import Conflict, ContractError, Denied

ROOT = Person(name="user:root", roles=["operator"])


def test_the_first_token_is_a_lasting_one_of_an_operator(directory: Directory) -> None:
    ann = Person(name="user:ann", roles=["human"])
    for bearer, lasts, why in (
        (ann, True, "user:ann must be an operator"),
        (ROOT, False, "neither ends nor has scopes"),
    ):
        with pytest.raises(Denied, match=why):
            require_first(directory, "user:me", bearer, lasts=lasts)
    require_first(directory, "user:me", ROOT, lasts=True)
    directory.create_token("user:root", "user:me")
    require_first(directory, "user:me", ann, lasts=False)


def test_the_last_one_is_neither_revoked_nor_made_void(directory: Directory) -> None:
    directory.set_person(ROOT)
    require_left(directory, without="none")
    _, token = directory.create_token("user:root", "user:me")
    directory.create_token("user:root", "user:me", expires_s=60)
    directory.create_token("user:root", "user:me", scopes=[Scope()])
    directory.create_token("user:ann", "user:me")
    demoted = Person(name="user:root", roles=["human"])
    with pytest.raises(Conflict, match="the last token of an operator"):
        require_left(directory, without=token.id)
    with pytest.raises(Conflict):
        require_left(directory, changed=demoted)
    require_left(directory, changed=Person(name="user:root", roles=["operator"], groups=["*"]))

    directory.set_person(Person(name="user:sue", roles=["operator"]))
    directory.create_token("user:sue", "user:me")
    require_left(directory, without=token.id)
    require_left(directory, changed=demoted)


def test_a_program_is_held_to_it_as_the_command_line_is(store: SqliteStore) -> None:
    kept = directory_of(store, embedded=False)
    kept.set_person(Person(name="user:ann", roles=["human"]))
    kept.set_person(ROOT)
    for first in (
        lambda: kept.create_token("user:ann", "user:me"),
        lambda: kept.create_token("user:root", "user:me", expires_s=60),
        lambda: kept.create_token("user:root", "user:me", scopes=[Scope()]),
    ):
        with pytest.raises(Denied, match="the first one here"):
            first()
    assert not kept.has_tokens()
    _, token = kept.create_token("user:root", "user:me")
    for call in (
        lambda: kept.revoke_token(token.id),
        lambda: kept.remove_person("user:root"),
        lambda: kept.set_person(Person(name="user:root", roles=["human"])),
    ):
        with pytest.raises(Conflict, match="the last token of an operator"):
            call()
    for wrong in (None, Person(name="user:root", roles=None)):  # type: ignore[arg-type]
        with pytest.raises(ContractError):
            kept.set_person(wrong)  # type: ignore[arg-type]
    assert kept.person("user:root") == ROOT
    kept.create_token("user:ann", "user:me", expires_s=60)
    kept.remove_person("user:ann")


def test_a_file_needs_no_operator(store: SqliteStore) -> None:
    directory = directory_of(store, embedded=True)
    assert not isinstance(directory, KeptDirectory)
    _, token = directory.create_token("user:ann", "user:me", expires_s=60)
    directory.revoke_token(token.id)
