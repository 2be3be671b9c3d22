"""Tokens: their form, what is kept of them, and each way in which one is not good."""

import pytest

from passdown.broker.access.directory import Directory
from passdown.broker.access.tokens import Token, new_token, read_token, require_good
from passdown.contracts.errors import Unauthenticated
from tests.conformance.building import Clock

NOW = 1_000_000


def kept(brought_hash: str, **more: object) -> Token:
    fields = {
        "id": "a" * 12,
        "hash": brought_hash,
        "principal": "user:ann",
        "created_at": 0,
        "created_by": "user:bob",
    }
    return Token(**{**fields, **more})  # type: ignore[arg-type]


def test_no_two_are_alike_and_the_secret_is_kept_nowhere() -> None:
    made = [new_token() for _ in range(50)]
    assert len({text for text, _ in made}) == len({brought.id for _, brought in made}) == 50
    text, brought = made[0]
    assert len(text) == 66
    assert text.startswith(f"pdt_{brought.id}_")
    assert read_token(f" {text}\n") == brought
    secret = text.removeprefix(f"pdt_{brought.id}_")[:43]
    assert secret not in repr(brought)


def test_a_typo_anywhere_is_told_apart_from_a_token_that_is_not_good() -> None:
    text, _ = new_token()
    for place in range(len(text)):
        other = "b" if text[place] != "b" else "c"
        with pytest.raises(Unauthenticated, match="is no token, or not all of one"):
            read_token(text[:place] + other + text[place + 1 :])


@pytest.mark.parametrize("text", ["", "pdt_", "secret", "pdt_abc_def", "x" * 66, "pdt_" + "a" * 10_000])
def test_rule_11_what_is_no_token_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(Unauthenticated) as caught:
        read_token(text)
    assert len(str(caught.value)) < 150
    assert caught.value.exit_code == 5


def test_one_is_good_until_it_ends_or_is_revoked() -> None:
    _, brought = new_token()
    assert require_good(brought, kept(brought.hash), NOW).principal == "user:ann"
    assert require_good(brought, kept(brought.hash, expires_at=NOW + 1), NOW).principal == "user:ann"
    for more, state in (({"expires_at": NOW}, "expired"), ({"revoked_at": 1, "expires_at": 1}, "revoked")):
        with pytest.raises(Unauthenticated, match=f"of user:ann is {state}"):
            require_good(brought, kept(brought.hash, **more), NOW)


def test_an_id_without_its_secret_is_as_unknown_as_no_id() -> None:
    _, brought = new_token()
    said: list[str] = []
    for known in (None, kept("0" * 64), kept(brought.hash[:-1] + "_", revoked_at=1)):
        with pytest.raises(Unauthenticated) as caught:
            require_good(brought, known, NOW)
        said.append(str(caught.value))
    assert len(set(said)) == 1


def test_its_end_is_judged_by_the_clock_of_the_store(directory: Directory, clock: Clock) -> None:
    text, token = directory.create_token("user:ann", "user:bob", expires_s=60)
    assert token.expires_at == clock.now + 60_000
    clock.now += 59_999
    assert require_good(read_token(text), directory.token(token.id), directory.now()) == token
    clock.now += 1
    with pytest.raises(Unauthenticated, match="is expired"):
        require_good(read_token(text), directory.token(token.id), directory.now())
