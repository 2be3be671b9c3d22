"""Who is known in a store, and what is noted where somebody loses something."""

import pytest

from passdown.broker.access.directory import Directory, Person
from passdown.broker.access.policy import Role, Scope
from passdown.broker.core.given import Who
from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import FindRecords
from passdown.contracts.errors import Conflict, ContractError, NotFound
from tests.conformance.building import Clock
from tests.conformance.together import together

ANN = Person(name="user:ann", roles=["human"], groups=["a", "b"], skills=["french"])


def test_a_principal_is_known_as_it_was_set_last(directory: Directory) -> None:
    assert directory.person("user:ann") is None
    directory.set_person(ANN)
    assert directory.person("user:ann") == ANN
    assert ANN.who == Who(frozenset({"a", "b"}), frozenset({"french"}))
    changed = Person(name="user:ann", roles=["human", "operator"], groups=["*"])
    directory.set_person(changed)
    assert list(directory.people()) == [changed]
    directory.remove_person("user:ann")
    assert list(directory.people()) == []
    with pytest.raises(NotFound):
        directory.remove_person("user:ann")


def test_all_are_found_however_many_there_are(directory: Directory) -> None:
    names = sorted(f"user:p{n}" for n in range(230))
    for name in names:
        directory.set_person(Person(name=name))
    assert [one.name for one in directory.people()] == names


@pytest.mark.parametrize(
    "person",
    [
        Person(name="ann"),
        Person(name="user:"),
        Person(name="user:a b"),
        Person(name="user:ann", groups=["Upper"]),
        Person(name="user:ann", groups=["a,b"]),
        Person(name="user:ann", skills=[""]),
        Person(name="user:ann", roles=["king"]),  # type: ignore[list-item]
    ],
)
def test_rule_11_what_cannot_be_a_principal_changes_nothing(directory: Directory, person: Person) -> None:
    with pytest.raises(ContractError):
        directory.set_person(person)
    assert list(directory.people()) == []


def known(directory: Directory) -> None:
    """Make Ann known; what she held before was looked at."""
    directory.set_person(ANN)
    for name, version in directory.sweeps():
        directory.swept(name, version)


@pytest.mark.parametrize(("role", "swept"), [("human", True), ("operator", False)])
def test_rule_10_whoever_is_made_known_may_have_been_the_owner(
    directory: Directory, role: Role, swept: bool
) -> None:
    directory.set_person(Person(name="user:ann", roles=[role]))
    assert [name for name, _ in directory.sweeps()] == (["user:ann"] if swept else [])


def test_whoever_was_removed_was_no_owner(directory: Directory) -> None:
    known(directory)
    directory.remove_person("user:ann")
    [(name, version)] = directory.sweeps()
    directory.swept(name, version)
    directory.set_person(ANN)
    assert directory.sweeps() == []


@pytest.mark.parametrize(
    ("after", "swept"),
    [
        (Person(name="user:ann", roles=["human"], groups=["a"], skills=["french"]), True),
        (Person(name="user:ann", roles=["human"], groups=["a", "b"]), True),
        (Person(name="user:ann", groups=["a", "b"], skills=["french"]), True),
        (None, True),
        (ANN, False),
        (
            Person(name="user:ann", roles=["human", "worker"], groups=["a", "b", "c"], skills=["french"]),
            False,
        ),
    ],
)
def test_rule_10_where_somebody_loses_something_their_claims_are_to_be_looked_at(
    directory: Directory, after: Person | None, swept: bool
) -> None:
    known(directory)
    if after is None:
        directory.remove_person("user:ann")
    else:
        directory.set_person(after)
    assert [name for name, _ in directory.sweeps()] == (["user:ann"] if swept else [])


def test_a_look_that_began_before_the_last_loss_does_not_end_the_note(directory: Directory) -> None:
    known(directory)
    directory.set_person(Person(name="user:ann", roles=["human"], groups=["a"]))
    [(name, seen)] = directory.sweeps()
    directory.remove_person("user:ann")
    directory.swept(name, seen)
    [(name, version)] = directory.sweeps()
    directory.swept(name, version)
    assert directory.sweeps() == []


def test_changes_that_cross_are_made_one_after_the_other(directory: Directory) -> None:
    directory.set_person(ANN)

    def change(n: int) -> None:
        directory.set_person(Person(name="user:ann", groups=[f"g{n}"]))

    together(4, change)
    person = directory.person("user:ann")
    assert person is not None
    assert person.groups in [[f"g{n}"] for n in range(4)]


def test_of_a_token_the_store_has_its_hash_only(directory: Directory, store: Store, clock: Clock) -> None:
    scopes = [Scope(verb="ticket.*", resource="queue:a")]
    text, token = directory.create_token("user:ann", "user:bob", scopes=scopes, label="x" * 300)
    assert (token.principal, token.created_by, token.created_at) == ("user:ann", "user:bob", clock.now)
    assert (token.scopes, token.expires_at, len(token.label)) == (scopes, None, 200)
    assert list(directory.tokens()) == [token]
    rows = store.find(FindRecords(kind="token"))
    assert text[17:60] not in repr(rows)
    with pytest.raises(ContractError):
        directory.create_token("ann", "user:bob")


def test_a_token_is_revoked_for_good(directory: Directory, clock: Clock) -> None:
    assert not directory.has_tokens()
    _, token = directory.create_token("user:ann", "user:bob")
    clock.now += 5
    revoked = directory.revoke_token(token.id)
    assert (revoked.revoked_at, revoked.state(clock.now)) == (clock.now, "revoked")
    clock.now += 5
    assert directory.revoke_token(token.id) == revoked
    assert directory.has_tokens()
    with pytest.raises(NotFound):
        directory.revoke_token("nobody")


def test_whoever_is_always_second_is_told(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    def crossed(*_: object) -> None:
        raise Conflict("record", "", "")

    monkeypatch.setattr(directory, "_put_person", crossed)
    with pytest.raises(Conflict, match="changed by others all the time"):
        directory.set_person(ANN)
