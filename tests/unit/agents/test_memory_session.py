from passdown.agents.memory_session import Session, identity_key, identity_of, new_effect
from passdown.agents.testing import make_pack, pack_tool
from passdown.agents.tools import tool
from passdown.contracts.pack import PackSnapshot


@tool("pay", effect=True, identity=["order"])
def pay(order: str, cents: int, *, key: str) -> None: ...


def session(*, rerun: bool = False) -> Session:
    made = Session(pack=make_pack("clerk", tools=[pay]), specs={}, rerun=rerun)
    made.snapshot = PackSnapshot(attempt=1, data={"a": 1})
    return made


def test_each_issue_is_a_new_sealed_attempt():
    made = session()
    first = made.pack
    made.issue("retry")
    assert (made.pack.attempt, made.pack.cause) == (2, "retry")
    assert made.pack.digest != first.digest
    assert made.pack.snapshot == made.snapshot


def test_a_rerun_starts_from_the_top_but_an_answer_does_not():
    made = session(rerun=True)
    made.issue("retry")
    assert made.pack.snapshot is None
    made.issue("input")
    assert made.pack.snapshot == made.snapshot


def test_identity_is_the_named_parameters_or_all():
    granted = pack_tool(pay)
    assert identity_of(granted, {"order": "a", "cents": 3}) == {"order": "a"}
    assert identity_key("pay", {"order": "a"}) == identity_key(
        "pay", identity_of(granted, {"order": "a", "cents": 4})
    )


def test_an_ended_claim_leaves_what_was_intended_unknown():
    made = session()
    effect = new_effect(made, "s.e-1", "pay", {}, "x", 1)
    effect.status = "intended"
    made.end_claim("its worker was lost")
    assert (effect.status, effect.error, made.claim_id) == ("unknown", "its worker was lost", "")


def test_a_proposal_does_not_stand_in_a_pack():
    made = session()
    new_effect(made, "s.e-1", "pay", {}, "x", 1)
    made.issue("retry")
    assert made.pack.effects == []
