"""Branches are found by the logs of those who opened them."""

from typing import Any

from passdown.broker.branches import Branches, Fan, fans_of
from passdown.broker.stores.base import Loaded
from passdown.broker.stores.sqlite.batch import Batch
from passdown.contracts.codec import encode
from passdown.contracts.events import BranchesOpened, FannedOut, Logged, Paused
from passdown.contracts.ids import branch_id, join_id
from tests.unit.broker.groves import REGIONS, grove, regions, tree_in, work
from tests.unit.broker.rig import Rig, plan


def logged(*events: Any) -> list[bytes]:
    return [
        encode(Logged(seq=n, at=n, by="user:ann", prev="", event=event))
        for n, event in enumerate(events, start=1)
    ]


def fanned(join: str, opening: int) -> FannedOut:
    return FannedOut(join_id=join, branches=900, digest="d", opening=opening)


class TestLog:
    def test_it_says_how_many_branches_there_may_be_of_each_fan_out(self) -> None:
        log = logged(
            fanned("s0-a.j-1", 500),
            BranchesOpened(join_id="s0-a.j-1", opened=500, opening=900),
            Paused(reason='"FannedOut"'),
            BranchesOpened(join_id="s0-a.j-1", opened=900, opening=900),
            fanned("s0-a.j-3", 2),
        )
        assert fans_of(log) == [Fan(join_id="s0-a.j-1", places=900), Fan(join_id="s0-a.j-3", places=2)]
        assert fans_of(logged(Paused())) == []

    def test_their_ids_follow_from_it(self) -> None:
        assert list(Fan(join_id="s0-a.j-1", places=2).ids()) == [branch_id("s0-a.j-1", n) for n in (0, 1)]


class TestStore:
    def open(self, rig: Rig, *sizes: int) -> Any:
        rig.broker.register(grove())
        return rig.broker.submit("grove", lists={REGIONS: regions(*sizes)}, key="k")

    def test_a_tree_comes_with_each_session_before_its_branches(self, rig: Rig) -> None:
        root = self.open(rig, 1, 2)
        work(rig.broker, root, clock=rig.clock)
        first, second = (branch_id(join_id(root.id, 1), place) for place in (0, 1))
        assert tree_in(rig.store, root.id) == [
            root.id,
            first,
            branch_id(join_id(first, 1), 0),
            second,
            branch_id(join_id(second, 1), 0),
            branch_id(join_id(second, 1), 1),
        ]

    def test_those_that_are_not_opened_yet_are_left_out(self, rig: Rig) -> None:
        root = self.open(rig, 1)
        assert tree_in(rig.store, root.id) == [root.id]
        rig.tick.once()
        assert len(tree_in(rig.store, root.id)) == 2

    def test_of_a_session_that_is_not_there_nothing_comes(self, rig: Rig) -> None:
        assert tree_in(rig.store, "s0-nobody") == []
        gone = Loaded(state=None, version=0, now=0, catalog=0)
        assert Branches(rig.store).fans("s0-nobody", gone) == []

    def test_the_log_is_read_only_where_the_plan_fans_out(self, rig: Rig) -> None:
        alone = rig.open(plan("p"), key="alone")
        branches = Branches(rig.store)
        calls = rig.listen()
        assert [one.session_id for one in branches.tree(alone.id)] == [alone.id]
        assert calls == ["load", "find"]
        root = self.open(rig, 1)
        calls = rig.listen()
        assert len(list(branches.tree(root.id))) == 1
        assert "events" in calls

    def test_where_the_plan_is_gone_the_log_says(self, rig: Rig) -> None:
        root = self.open(rig, 1)
        rig.tick.once()
        change(rig, "DELETE FROM documents")
        assert len(tree_in(rig.store, root.id)) == 2

    def test_where_a_log_cannot_be_read_the_others_come(self, rig: Rig) -> None:
        root = self.open(rig, 1, 1)
        work(rig.broker, root, clock=rig.clock)
        whole = tree_in(rig.store, root.id)
        change(
            rig,
            "UPDATE sessions SET state = CAST('{' AS BLOB) WHERE session_id = ?",
            whole[1],
        )
        assert tree_in(rig.store, root.id) == [one for one in whole if one != whole[2]]


def change(rig: Rig, sql: str, *args: str) -> None:
    """Change something behind the store's back."""

    def work(batch: Batch) -> None:
        batch.settled().execute(sql, args)

    vars(rig.store.inner)["_writer"].run(work)
