"""Lists that go along with a submit: kept beside the session, each item a branch, and refused whole where one is wrong."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from passdown.broker import Submission
from passdown.broker.joins import lists
from passdown.broker.joins.lists import keep_list, paged
from passdown.contracts.codec import encode
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, NotFound
from passdown.contracts.plans import FanOut, Next, Plan, Stage
from tests.unit.cli.workshop import Workshop, batch_plan, review_plan

DOCS: list[dict[str, Any]] = [{"name": f"doc-{n}", "pages": n} for n in range(250)]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    made = Workshop(tmp_path)
    yield made
    made.close()


def test_each_item_is_a_branch_which_is_given_it(shop: Workshop) -> None:
    session = shop.submit(batch_plan(), lists={"documents": iter(DOCS)})
    state = session.state()
    assert (state.data, state.lists["documents"].items) == ({}, 250)
    rows = session.branches(limit=1000)
    assert [row.name for row in rows] == [one["name"] for one in DOCS]
    for place in (0, 99, 100, 249):
        inputs = session.branch(f"doc-{place}").state().data
        assert inputs == {"document": DOCS[place]}


def test_the_same_key_with_the_same_list_is_the_same_session(shop: Workshop) -> None:
    first = shop.submit(batch_plan(), lists={"documents": DOCS})
    before = first.state().seq
    again = shop.broker.submit("batch", key="k", task="Task of k", lists={"documents": list(DOCS)})
    assert (again.id, again.state().seq) == (first.id, before)


def test_the_same_key_with_another_list_is_a_conflict_and_changes_no_page(shop: Workshop) -> None:
    """Fault: what a branch is given must be the list that its session was opened with."""
    session = shop.broker.submit(
        shop.broker.register(batch_plan()), key="k", task="Task of k", lists={"documents": DOCS}
    )
    with pytest.raises(Conflict, match="submitted with another content"):
        shop.broker.submit("batch", key="k", task="Task of k", lists={"documents": DOCS[::-1]})
    with pytest.raises(Conflict):
        shop.broker.submit("batch", key="k", task="Task of k")
    shop.settle()
    assert [one.name for one in session.branches(limit=3)] == ["doc-0", "doc-1", "doc-2"]
    assert session.branch("doc-0").state().data == {"document": DOCS[0]}


def test_two_submits_of_one_key_at_once_read_each_their_own_list(shop: Workshop) -> None:
    """The pages of one that loses the race, written last, are not those that the session reads."""
    ref = shop.broker.register(batch_plan())
    session = shop.broker.submit(ref, key="k", lists={"documents": DOCS})
    keep_list(shop.broker.app.store, session.id, "documents", paged("documents", DOCS[::-1]))
    shop.settle()
    assert session.branch("doc-3").state().data == {"document": DOCS[3]}


def test_a_list_of_none_is_a_list(shop: Workshop) -> None:
    session = shop.submit(batch_plan(), lists={"documents": []})
    (join,) = session.joins()
    assert (join.branches, join.standing, session.branches()) == (0, "enough", [])


def test_many_with_lists_and_without_are_opened_in_their_order(shop: Workshop) -> None:
    ref = shop.broker.register(batch_plan())
    work = [
        Submission(
            None if n % 2 else {"documents": DOCS[:1]},
            key=f"k{n}",
            lists={"documents": DOCS[:n]} if n % 2 else {},
        )
        for n in range(6)
    ]
    sessions = shop.broker.submit_all(ref, work)
    assert [one.state().key for one in sessions] == [f"k{n}" for n in range(6)]
    assert [bool(one.state().lists) for one in sessions] == [False, True] * 3
    assert [one.id for one in shop.broker.submit_all(ref, work)] == [one.id for one in sessions]


class Repeated(Mapping[str, Any]):
    """Says a name that a mapping of ours never has."""

    def __getitem__(self, name: str) -> Any:
        return DOCS

    def __iter__(self) -> Iterator[Any]:
        return iter([7])

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"documnets": DOCS},
            "at /lists/documnets: no stage of batch@1 opens a branch for each of it; they read: documents",
        ),
        ({"two words": []}, "at /lists: the name of a list has 1 to 100 letters"),
        ({"a.b": []}, "at /lists: the name of a list has 1 to 100 letters"),
        ({"": []}, "at /lists: the name of a list has"),
        ({"x" * 101: []}, "at /lists: the name of a list has"),
        (Repeated(), "at /lists: the name of a list has"),
        ({"documents": "text"}, "at /lists/documents: expected a list, got str"),
        ({"documents": {"a": 1}}, "at /lists/documents: expected a list, got dict"),
        ({"documents": 7}, "at /lists/documents: expected a list, got int"),
        (
            {"documents": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
            "at /lists/documents/2/name: two branches have the name 'a'",
        ),
        (
            {"documents": [{"name": "a"}, {"no": 1}]},
            "at /lists/documents/1/name: expected a name of 1 to 100",
        ),
        ({"documents": [{"name": "a"}, "text"]}, "at /lists/documents/1/name: expected a name of 1 to 100"),
        ({"documents": [{"name": "a", "text": "x" * 40_000}]}, "at /lists/documents/0: it has 40022 bytes"),
        (
            {"documents": [{"name": "a", "n": float("nan")}]},
            "item 0 of list 'documents' does not fit its contract",
        ),
        (
            {"documents": [{"name": "a", "n": object()}]},
            "item 0 of list 'documents' does not fit its contract",
        ),
        (
            {"documents": [{"name": str(n)} for n in range(1001)]},
            "at /lists/documents: the list has 1001 items, and stage fan allows 1000",
        ),
        (["documents"], "at /lists: expected lists by name"),
    ],
)
def test_a_list_that_will_not_do_is_refused_with_its_place(shop: Workshop, given: Any, said: str) -> None:
    ref = shop.broker.register(batch_plan())
    with pytest.raises(ContractError) as caught:
        shop.broker.submit(ref, key="k", lists=given)
    assert said in str(caught.value)
    with pytest.raises(NotFound):
        shop.broker.session("k")


def test_a_list_that_is_an_input_too_is_refused(shop: Workshop) -> None:
    ref = shop.broker.register(batch_plan())
    with pytest.raises(ContractError, match=r"at /lists/documents: there is an input 'documents', too"):
        shop.broker.submit(ref, inputs={"documents": DOCS[:2]}, lists={"documents": DOCS})


def test_a_plan_without_a_list_says_so(shop: Workshop) -> None:
    ref = shop.broker.register(review_plan())
    with pytest.raises(ContractError, match="they read: none"):
        shop.broker.submit(ref, lists={"documents": DOCS})
    with pytest.raises(NotFound, match="no plan"):
        shop.broker.submit("nope", lists={"documents": DOCS})


def test_one_of_many_that_will_not_do_is_named_and_nothing_is_opened(shop: Workshop) -> None:
    ref = shop.broker.register(batch_plan())
    work = [Submission(key="a", lists={"documents": DOCS}), Submission(key="b", lists={"nope": DOCS})]
    with pytest.raises(ContractError, match=r"^submission 1: submit does not fit"):
        shop.broker.submit_all(ref, work)
    assert shop.broker.sessions() == []


def test_names_must_differ_for_each_fan_out_that_reads_the_list(shop: Workshop) -> None:
    fan_outs = [FanOut(each="documents", stage="end1", key=key) for key in ("name", "pages")]
    plan = Plan(
        name="twice",
        start="one",
        stages={
            "one": Stage(fan_out=fan_outs[0], next=Next(to="two")),
            "two": Stage(fan_out=fan_outs[1]),
            "end1": Stage(role="r"),
        },
    )
    ref = shop.broker.register(plan)
    with pytest.raises(ContractError, match="/lists/documents/0/pages: expected a name"):
        shop.broker.submit(ref, lists={"documents": DOCS})


def nested(inner: FanOut, **outer: Any) -> Plan:
    """Return a plan whose branches fan out themselves."""
    stages = {
        "outer": Stage(fan_out=FanOut(branches={"a": "inner", "b": "inner"}), **outer),
        "inner": Stage(fan_out=inner),
        "end1": Stage(role="r"),
    }
    return Plan(name="nested", start="outer", stages=stages)


def test_a_list_that_only_branches_would_read_is_refused(shop: Workshop) -> None:
    """Fault: branches get the inputs of their session and no list beside it, so none of them would find it."""
    inner = FanOut(each="documents", stage="end1")
    ref = shop.broker.register(nested(inner))
    with pytest.raises(
        ContractError, match=r"only within other branches, .*: bring it as an input"
    ) as caught:
        shop.broker.submit(ref, lists={"documents": iter(int, 1)})
    assert caught.value.pointer == "/lists/documents"
    assert shop.broker.sessions() == []
    session = shop.submit(nested(inner), inputs={"documents": DOCS[:2]})
    assert [row.name for row in session.branch("a").branches()] == ["0", "1"]


def test_a_list_that_the_session_reads_itself_is_taken_though_branches_would_like_it(shop: Workshop) -> None:
    inner = FanOut(each="documents", stage="end1", most=1)
    session = shop.submit(nested(inner, next=Next(to="inner")), key="k1", lists={"documents": DOCS[:1]})
    assert session.state().lists["documents"].items == 1
    # Only what the session itself opens is named, and bounds it.
    with pytest.raises(ContractError, match="stage inner allows 1"):
        shop.broker.submit("nested", lists={"documents": DOCS[:2]})


class Read(Iterator[Any]):
    """Gives items, and counts them."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = iter(items)
        self.count = 0

    def __next__(self) -> Any:
        item = next(self._items)
        self.count += 1
        return item


@pytest.mark.parametrize(
    "bad",
    [{"name": "x" * 200}, {"name": "doc-0"}, {"name": "y", "text": "x" * 40_000}, {"name": float("nan")}],
)
def test_rule_12_nothing_is_read_after_an_item_that_will_not_do(bad: dict[str, Any]) -> None:
    read = Read([*DOCS[:120], bad, *DOCS[120:]])
    with pytest.raises(ContractError, match="120"):
        paged("documents", read, keys=["name"])
    assert read.count == 121


def test_rule_12_a_list_over_its_budget_is_read_up_to_there(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = paged("documents", DOCS[:110]).ref.bytes
    monkeypatch.setattr(lists, "LIST_BUDGET", kept)
    assert paged("documents", DOCS[:110]).ref.bytes == kept
    read = Read(DOCS)
    with pytest.raises(BudgetExceeded, match=rf"list 'documents' has .* bytes, its budget is {kept}"):
        paged("documents", read)
    assert read.count == 111


def test_a_page_is_the_canonical_form_of_its_items() -> None:
    listed = paged("x", DOCS)
    assert listed.pages == [encode(DOCS[:100]), encode(DOCS[100:200]), encode(DOCS[200:])]
    assert listed.ref.bytes == sum(map(len, listed.pages))
    assert paged("x", []).pages == []


def test_a_list_without_an_end_is_left_after_the_most_that_there_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lists, "MOST_BRANCHES", 10)
    with pytest.raises(ContractError, match="at /lists/numbers: the list has more than 10 items"):
        paged("numbers", iter(int, 1))


def test_a_list_is_named_by_what_is_in_it() -> None:
    refs = [paged("x", DOCS[:n]).ref for n in (0, 1, 100, 101, 250)]
    assert [ref.items for ref in refs] == [0, 1, 100, 101, 250]
    assert len({ref.digest for ref in refs}) == 5
