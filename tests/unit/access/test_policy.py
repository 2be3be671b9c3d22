"""The table of roles and verbs, the scopes of tokens, and that what nobody allowed is denied."""

import pytest

from passdown.broker.access.policy import (
    ROLES,
    VERBS,
    VERBS_OF,
    Actor,
    Role,
    Scope,
    Verb,
    authorize,
)
from passdown.broker.core.given import Who
from passdown.contracts.errors import Denied

#: What each role may do, written down a second time: whoever changes the policy says so here as well.
EXPECTED: dict[Verb, str] = {
    "session.submit": "producer operator",
    "session.read": "producer human operator",
    "session.answer": "producer operator",
    "session.steer": "producer operator",
    "ticket.read": "human operator",
    "ticket.claim": "human operator",
    "ticket.comment": "human operator",
    "ticket.reassign": "human operator",
    "ticket.resolve": "human operator",
    "pack.take": "worker operator",
    "plan.read": "producer worker human operator",
    "plan.register": "operator",
    "tool.read": "producer worker operator",
    "tool.register": "worker operator",
    "queue.read": "operator",
    "quarantine.read": "operator",
    "quarantine.change": "operator",
    "store.read": "operator",
    "store.archive": "operator",
    "token.manage": "operator",
    "principal.manage": "operator",
}


def actor(*roles: Role, scopes: tuple[Scope, ...] | None = None) -> Actor:
    return Actor("user:ann", roles=frozenset(roles), scopes=scopes)


def may(who: Actor, verb: Verb, *resources: str) -> bool:
    try:
        authorize(who, verb, *resources)
    except Denied:
        return False
    return True


def test_every_verb_is_in_the_table() -> None:
    assert set(EXPECTED) == set(VERBS)
    assert set(VERBS_OF) == set(ROLES)


@pytest.mark.parametrize("verb", VERBS)
def test_rule_10_each_role_may_what_the_table_says_and_no_more(verb: Verb) -> None:
    assert [role for role in ROLES if may(actor(role), verb)] == [
        role for role in ROLES if role in EXPECTED[verb].split()
    ]


@pytest.mark.parametrize("verb", VERBS)
def test_rule_10_nobody_may_anything_without_a_role(verb: Verb) -> None:
    assert not may(actor(), verb)
    assert not may(actor(scopes=(Scope(),)), verb), "a token gives nothing that its principal has not"


@pytest.mark.parametrize("verb", VERBS)
def test_the_owner_of_an_embedded_store_may_everything(verb: Verb) -> None:
    owner = Actor("user:ann", owner=True)
    assert may(owner, verb)
    assert owner.operates
    assert owner.who is None


@pytest.mark.parametrize(
    ("scope", "verb", "names", "covered"),
    [
        ("*=*", "ticket.claim", ["queue:a"], True),
        ("ticket.*=queue:refund-*", "ticket.claim", ["queue:refund-approvers"], True),
        ("ticket.*=queue:refund-*", "ticket.claim", ["queue:other"], False),
        ("ticket.*=queue:refund-*", "session.read", ["queue:refund-approvers"], False),
        ("ticket.claim=queue:a", "ticket.resolve", ["queue:a"], False),
        ("ticket.*=queue:refund-*", "ticket.claim", [], True),
        ("session.*=plan:refund", "session.read", ["session:s0-1", "plan:refund", "task:t"], True),
        ("session.*=plan:refund", "session.read", ["session:s0-1", "plan:refunds", "task:t"], False),
        ("Ticket.*=*", "ticket.claim", [], False),
    ],
)
def test_a_scope_covers_verbs_and_names_that_fit_its_patterns(
    scope: str, verb: Verb, names: list[str], covered: bool
) -> None:
    pattern, _, resource = scope.partition("=")
    narrowed = actor("operator", scopes=(Scope(verb=pattern, resource=resource),))
    assert may(narrowed, verb, *names) is covered


def test_a_token_without_any_scope_is_good_for_nothing() -> None:
    with pytest.raises(Denied, match="the token is good for nothing"):
        authorize(actor("operator", scopes=()), "queue.read")


def test_a_denial_says_what_it_takes() -> None:
    with pytest.raises(Denied) as caught:
        authorize(actor("human"), "plan.register")
    assert str(caught.value) == (
        "user:ann may not plan.register: it takes the role operator, and user:ann has the role human"
    )
    with pytest.raises(Denied) as caught:
        authorize(actor(), "pack.take", "role:cashier")
    assert str(caught.value) == (
        "user:ann may not pack.take role:cashier: it takes the role worker, operator, and user:ann has no role here"
    )
    scopes = (Scope(verb="ticket.*", resource="queue:a"),)
    with pytest.raises(Denied) as caught:
        authorize(actor("human", scopes=scopes), "ticket.claim", "queue:b")
    assert caught.value.why == "the token is good for ticket.*=queue:a"


def test_operators_are_asked_for_no_group_and_others_for_theirs() -> None:
    assert actor("operator").who is None
    human = Actor("user:ann", frozenset({"human"}), frozenset({"a"}), frozenset({"french"}))
    assert human.who == Who(frozenset({"a"}), frozenset({"french"}))
