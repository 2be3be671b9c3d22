"""A store that asks for tokens keeps an operator who has one."""

import pytest

from passdown.broker.access.directory import Directory, Person
from passdown.broker.access.operators import require_first, require_left
from passdown.broker.access.policy import Scope
from passdown.contracts.errors import Conflict, Denied

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
