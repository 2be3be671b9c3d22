"""What travels over the gateway, and that the protocol tells an implementer everything."""

import inspect
from typing import Any, cast, get_type_hints

import pytest

from passdown.contracts import gateway
from passdown.contracts.codec import decode, encode
from passdown.contracts.gateway import AgentInfo, Claim, Gateway, Offer, Taking
from passdown.contracts.returns import Fence
from tests.unit.contracts.helpers import sample_pack

METHODS = {
    name: method
    for name, method in inspect.getmembers(Gateway, inspect.isfunction)
    if not name.startswith("_")
}


@pytest.mark.parametrize(
    "message",
    [
        AgentInfo(name="cashier", version="1.4"),
        Offer(pack=sample_pack()[0], solo=True),
        Claim(session_id="s0-1", fence=Fence(step=1, attempt=1, claim_id="claim-0001"), lease_seconds=1.5),
        Taking(offers=[Offer(pack=sample_pack()[0])], more=False),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_is_read_back(message: Any) -> None:
    kind = cast("Any", type(message))
    assert decode(encode(message), kind) == message


def test_the_design_names_these_verbs() -> None:
    named = {"claim", "renew", "release", "checkpoint", "tool", "effect", "settle", "give"}
    assert named <= set(METHODS)
    several = {"claim_all", "give_all"}
    others = {"take", "hand_back", "report", "fail", "branches", "register_tools"}
    assert set(METHODS) - named - several == others


@pytest.mark.parametrize("name", METHODS)
def test_each_method_says_what_it_does_and_with_what(name: str) -> None:
    method = METHODS[name]
    assert method.__doc__
    hints = get_type_hints(method, dict(vars(gateway)))
    assert set(hints) == {*inspect.signature(method).parameters, "return"} - {"self"}


def test_times_are_seconds_and_say_so() -> None:
    for method in METHODS.values():
        for name, parameter in inspect.signature(method).parameters.items():
            if parameter.annotation in (float, "float"):
                assert name.endswith("_seconds")
