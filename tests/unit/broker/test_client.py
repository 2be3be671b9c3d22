"""What producers may ask, in which order it is looked at, and what a key stands for (rule 11, DESIGN §4)."""

import getpass
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pydantic
import pytest

from passdown.broker import Broker, client, connected
from passdown.contracts import commands as cmd
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, NotFound, PlanError
from passdown.contracts.pack import Resource
from passdown.contracts.plans import Plan
from tests.unit.broker.rig import ROLE, Rig, plan

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Struct(msgspec.Struct):
    order: str


class Model(pydantic.BaseModel):
    order: str


@dataclass
class Data:
    order: str


def numbered(number: int, **more: Any) -> Plan:
    made = plan(**more)
    return Plan(name="p", version=number, start="only", stages=made.stages)


class TestSubmit:
    def test_it_opens_a_session_with_all_that_was_said(self, rig: Rig) -> None:
        rig.broker.register(plan())
        resource = Resource(name="scan", uri="s3://b/scan.pdf")
        session = rig.broker.submit(
            "p", task="Acme", inputs={"a": 1}, key="k", resources=[resource], trace=TRACE
        )
        state = session.state()
        assert (state.task_name, state.data, state.key, state.by) == ("Acme", {"a": 1}, "k", "user:producer")
        assert (state.resources, state.trace) == ([resource], TRACE)

    @pytest.mark.parametrize("inputs", [Struct("a"), Model(order="a"), Data("a"), {"order": "a"}])
    def test_inputs_may_be_anything_that_becomes_an_object(self, rig: Rig, inputs: Any) -> None:
        assert rig.open(inputs=inputs).state().data == {"order": "a"}

    def test_resources_may_be_plain_data(self, rig: Rig) -> None:
        given = cast("Any", [{"name": "a", "uri": "file:///a", "bytes": 3}])
        assert rig.open(resources=given).state().resources == [Resource(name="a", uri="file:///a", bytes=3)]

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            ({"inputs": [1]}, "expected a JSON object"),
            ({"inputs": "x"}, "expected a JSON object"),
            ({"inputs": {"a": float("nan")}}, "NaN and infinities are not JSON"),
            ({"inputs": {"a": 2**53}}, "send it as a string"),
            ({"inputs": {"a": "\ud800"}}, "lone surrogate"),
            ({"inputs": {"a": object()}}, "object is not JSON data"),
            ({"key": ""}, "submit does not fit its contract at /key"),
            ({"key": "k" * 201}, "submit does not fit its contract at /key"),
            ({"key": 5}, "submit does not fit its contract at /key"),
            ({"key": "\ud800"}, "lone surrogate"),
            ({"task": "t" * 201}, "at /taskName"),
            ({"task": None}, "at /taskName"),
            ({"trace": "not a trace"}, "at /trace: expected a W3C traceparent"),
            ({"trace": "x" * 1_000_000}, "at /trace"),
            ({"resources": [{"name": "a"}]}, "at /resources/0"),
            ({"resources": [{"name": "a", "uri": "u", "x": 1}]}, "at /resources/0"),
            ({"resources": [{"name": "", "uri": "u"}]}, "at /resources/0: a resource has a name and a uri"),
            ({"resources": [{"name": "a", "uri": ""}]}, "at /resources/0: a resource has a name and a uri"),
            ({"resources": [{"name": "a", "uri": "u"}] * 2}, "at /resources/1/name: two resources are named"),
            ({"resources": "abc"}, "at /resources"),
        ],
    )
    def test_what_does_not_fit_is_refused_before_the_store_is_asked(
        self, rig: Rig, more: dict[str, Any], said: str
    ) -> None:
        rig.broker.register(plan())
        rig.fail(*["before"] * 10)
        with pytest.raises(ContractError) as refused:
            rig.broker.submit("p", **more)
        assert said in str(refused.value)
        assert rig.store.given == []

    def test_what_is_too_large_is_refused_and_leaves_nothing(self, rig: Rig) -> None:
        rig.broker.register(plan())
        with pytest.raises(BudgetExceeded):
            rig.broker.submit("p", inputs={"a": "x" * 70_000}, key="k")
        with pytest.raises(NotFound):
            rig.broker.session("k")

    def test_an_unknown_plan(self, rig: Rig) -> None:
        rig.broker.register(plan())
        for name in ("q", "p@2", "p@", "@1", ""):
            with pytest.raises(NotFound, match="registered are: p@1"):
                rig.broker.submit(name)

    def test_without_a_key_each_call_opens_its_own(self, rig: Rig) -> None:
        rig.broker.register(plan())
        assert rig.broker.submit("p").id != rig.broker.submit("p").id


class TestKeys:
    def test_the_same_key_is_the_same_session_also_after_its_end(self, rig: Rig) -> None:
        session = rig.open(inputs={"a": 1}, key="k")
        assert rig.broker.submit("p", inputs={"a": 1}, key="k").id == session.id
        rig.drain()
        assert rig.broker.submit("p", inputs={"a": 1}, key="k").id == session.id
        assert [type(one.event).__name__ for one in session.events()].count("SessionOpened") == 1

    def test_a_newer_version_of_the_plan_does_not_make_it_another_submit(self, rig: Rig) -> None:
        """The producer says the same words again, because the reply was lost; the plan was renewed meanwhile."""
        session = rig.open(numbered(1), key="k")
        rig.broker.register(numbered(2, goal="new"))
        rig.broker.register(numbered(1, goal="changed in place"))
        for name in ("p", "p@1"):
            assert rig.broker.submit(name, key="k").id == session.id
        assert session.state().plan.version == 1
        with pytest.raises(Conflict):
            rig.broker.submit("p@2", key="k")
        assert rig.broker.submit("p", key="other").state().plan.version == 2

    @pytest.mark.parametrize("more", [{"inputs": {"a": 2}}, {"task": "another"}, {"trace": TRACE}])
    def test_another_content_is_a_conflict_that_names_the_session(
        self, rig: Rig, more: dict[str, Any]
    ) -> None:
        session = rig.open(key="k")
        said = f"the key 'k' belongs to session {session.id} of p@1, which was submitted with another content"
        with pytest.raises(Conflict) as refused:
            rig.broker.submit("p", key="k", **more)
        assert str(refused.value) == said

    def test_so_is_another_plan_and_another_producer_is_not(self, rig: Rig) -> None:
        session = rig.open(key="k")
        rig.broker.register(plan("q"))
        with pytest.raises(Conflict, match="belongs to session"):
            rig.broker.submit("q", key="k")
        assert rig.person().submit("p", key="k").id == session.id

    def test_a_lost_reply_is_asked_for_again(self) -> None:
        rig = Rig(patience_s=5.0)
        rig.broker.register(plan())
        for n, fault in enumerate(("before", "after")):
            rig.fail(fault, only={"commit"})
            assert rig.broker.submit("p", key=f"k{n}").status() == "queued"
        rig.broker.close()


class TestSession:
    def test_it_is_found_by_its_id_and_by_its_key(self, rig: Rig) -> None:
        session = rig.open(key="k")
        assert rig.broker.session("k").id == rig.broker.session(session.id).id == session.id
        for name in ("none", "", "s0-none"):
            with pytest.raises(NotFound):
                rig.broker.session(name)
        with pytest.raises(ContractError):
            rig.broker.session("\ud800")


class TestLists:
    @pytest.mark.usefixtures("still")
    @pytest.mark.parametrize("apart_ms", [0, 1, 40])
    def test_pages(self, rig: Rig, apart_ms: int) -> None:
        rig.broker.register(plan())
        ids: list[str] = []
        for n in range(5):
            ids.append(rig.broker.submit("p", task=f"t{n}").id)
            rig.clock.forward(apart_ms)
        page = rig.broker.sessions(limit=2)
        rest = rig.broker.sessions(before=page[-1].session_id)
        assert [one.session_id for one in page + rest] == ids[::-1]
        assert len(rig.broker.sessions(task="t3")) == 1
        assert rig.broker.sessions(status="done") == rig.broker.sessions(plan="q@1") == []

    @pytest.mark.parametrize("limit", [0, -1, 1001, 10**20])
    def test_a_limit_is_a_limit(self, rig: Rig, limit: int) -> None:
        with pytest.raises(ContractError, match="expected 1 to 1000"):
            rig.broker.sessions(limit=limit)
        with pytest.raises(ContractError, match="expected 1 to 1000"):
            rig.broker.tickets(limit=limit)


class TestDelegate:
    def test_a_goal_is_enough(self, rig: Rig) -> None:
        session = rig.broker.delegate(ROLE, "Sum {inputs.a} up.", {"a": [1, 2]})
        (pack,) = rig.take()
        assert (pack.goal, session.state().task_name) == ("Sum [1,2] up.", "Sum {inputs.a} up.")

    @pytest.mark.parametrize("returns", [Struct, Model, Data, {"type": "object", "required": ["order"]}])
    def test_what_must_come_back_may_be_a_class(self, rig: Rig, returns: Any) -> None:
        session = rig.broker.delegate(ROLE, "Find the order.", returns=returns)
        rig.claim().give()
        state = session.state()
        assert state.failures == 1
        assert "order" in state.feedback[0].text

    def test_the_same_again_is_the_same_plan_and_with_a_key_the_same_session(self, rig: Rig) -> None:
        first = rig.broker.delegate(ROLE, "Do it.", {"a": 1}, key="k")
        again = rig.broker.delegate(ROLE, "Do it.", {"a": 1}, key="k")
        other = rig.broker.delegate(ROLE, "Do it.", {"a": 2})
        assert first.id == again.id != other.id
        assert first.state().plan == other.state().plan
        with pytest.raises(Conflict):
            rig.broker.delegate(ROLE, "Do something else.", {"a": 1}, key="k")

    def test_what_will_not_do_is_refused(self, rig: Rig) -> None:
        for role, goal, returns in (
            ("No Role", "x", None),
            (ROLE, "x", {"type": "nonsense"}),
            (ROLE, "x", 5),
        ):
            with pytest.raises(PlanError):
                rig.broker.delegate(role, goal, returns=cast("Any", returns))


class TestRegister:
    def test_a_store_that_is_away_for_a_moment(self) -> None:
        rig = Rig(patience_s=5.0)
        rig.fail("before", "after", only={"put"})
        assert str(rig.broker.register(plan())) == "p@1"
        rig.broker.close()


class TestPrincipals:
    @pytest.mark.parametrize("name", ["user:ann", "agent:cashier", "group:a/b@c", "user:Ann.Ü"])
    def test_who_acts(self, rig: Rig, name: str) -> None:
        assert Broker(rig.app, name).by == name

    @pytest.mark.parametrize(
        "name", ["", "ann", "user:", "User:ann", "user:a b", "user:ann\n", ":x", "user::x"]
    )
    def test_who_cannot(self, rig: Rig, name: str) -> None:
        with pytest.raises(ContractError, match="expected kind:name"):
            Broker(rig.app, name)

    @pytest.mark.parametrize(
        ("system", "shown"),
        [
            ("ann", "user:ann"),
            ("ann smith", "user:ann-smith"),
            ("DOMAIN\\ann", "user:DOMAIN\\ann"),
            (":ann", "user:-ann"),
            ("x" * 300, "user:" + "x" * 120),
        ],
    )
    def test_by_default_it_is_the_systems_user(
        self, monkeypatch: pytest.MonkeyPatch, system: str, shown: str
    ) -> None:
        monkeypatch.setattr(getpass, "getuser", lambda: system)
        assert client.me() == shown

    @pytest.mark.parametrize("error", [KeyError("uid not found"), OSError("no"), ImportError("pwd")])
    def test_a_user_without_a_name_acts_under_its_number(
        self, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        def fail() -> str:
            raise error

        monkeypatch.setattr(getpass, "getuser", fail)
        monkeypatch.setattr(connected.os, "getuid", lambda: 1234)
        assert client.me() == "user:uid-1234"


def test_a_connection_that_cannot_be_leaves_nothing_open(tmp_path: Any) -> None:
    with pytest.raises(ContractError, match="expected kind:name"):
        Broker.connect(f"sqlite:///{tmp_path}/a.db", by="nobody")
    assert list(tmp_path.iterdir()) == []


def test_closing_twice_does_nothing(rig: Rig) -> None:
    with rig.broker:
        pass
    rig.broker.close()


def test_a_submit_is_one_commit(rig: Rig) -> None:
    rig.broker.register(plan())
    rig.broker.submit("p")
    calls = rig.listen()
    rig.broker.submit("p", key="k")
    assert calls == ["commit"]
    assert cmd.Submit.__struct_fields__[0] == "key"
