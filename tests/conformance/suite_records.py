"""Records by name, which belong to no session: all of a writing or none of it, and found in the order of their bytes."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest

from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import FindRecord, FindRecords, RecordRow
from passdown.broker.stores.records import MOST_BYTES, MOST_RECORDS, RecordPut, Records
from passdown.contracts.errors import Conflict, ContractError, Unavailable
from tests.conformance.building import done, step
from tests.conformance.driver import Driven
from tests.conformance.faulty import FaultyStore, Script
from tests.conformance.together import together

#: Names in the order of their UTF-8 bytes: neither that of a language, nor that of UTF-16.
SORTED = ["A", "B", "a", "a ", "a\"'b", "a/b:{c}", "b", "ß", "ä", "漢", "\uffee", "😀", "😀a"]


def rec(name: str, expected: int = 0, body: bytes | None = b"{}", *, kind: str = "token") -> RecordPut:
    """Return one record to write."""
    return RecordPut(kind=kind, name=name, expected=expected, body=body)


def write(store: Store, *puts: RecordPut) -> None:
    """Write records, all or none."""
    store.put(Records(records=list(puts)))


def read(store: Store, name: str, *, kind: str = "token") -> RecordRow | None:
    """Return a record."""
    return cast("RecordRow | None", store.find(FindRecord(kind=kind, name=name)))


def stands(store: Store, name: str, *, kind: str = "token") -> tuple[int, bytes]:
    """Return a record's version and body, which must be there."""
    found = read(store, name, kind=kind)
    assert found is not None
    return found.version, found.body


def names(store: Store, after: str = "", limit: int = 100, *, kind: str = "token") -> list[str]:
    """Return the names that are found."""
    rows = store.find(FindRecords(kind=kind, after=after, limit=limit))
    return [row.name for row in cast("list[RecordRow]", rows)]


class RecordSuite(Driven):
    def test_a_record_is_made_changed_and_removed(self, store: Store) -> None:
        assert read(store, "t1") is None
        write(store, rec("t1", 0, b"one"))
        assert read(store, "t1") == RecordRow(kind="token", name="t1", version=1, body=b"one")
        write(store, rec("t1", 1, b"two"))
        assert stands(store, "t1") == (2, b"two")
        write(store, rec("t1", 2, None))
        assert read(store, "t1") is None
        assert names(store) == []
        write(store, rec("t1", 0, b"three"))
        assert stands(store, "t1") == (1, b"three")

    def test_one_written_again_as_it_is_counts_as_a_change(self, store: Store) -> None:
        write(store, rec("t1"))
        write(store, rec("t1", 1))
        assert stands(store, "t1") == (2, b"{}")

    @pytest.mark.parametrize("there", [False, True])
    @pytest.mark.parametrize("body", [b"mine", None])
    def test_rule_09_at_another_version_it_is_a_conflict_that_names_it(
        self, store: Store, there: bool, body: bytes | None
    ) -> None:
        if there:
            write(store, rec("user:ann", 0, b"1", kind="principal"))
            write(store, rec("user:ann", 1, b"2", kind="principal"))
        for expected in (0, 1, 3) if there else (1, 2):
            with pytest.raises(Conflict, match="principal user:ann") as told:
                write(store, rec("user:ann", expected, body, kind="principal"))
            assert f"is at version {2 * there}, not {expected}" in str(told.value)
        if there:
            assert stands(store, "user:ann", kind="principal") == (2, b"2")
        else:
            assert read(store, "user:ann", kind="principal") is None

    def test_what_is_not_there_may_be_removed(self, store: Store) -> None:
        write(store, rec("t1", 0, None))
        assert (read(store, "t1"), names(store)) == (None, [])

    def test_several_are_written_in_one_step(self, store: Store) -> None:
        write(store, rec("user:ann", kind="principal"), rec("t1"), rec("t2"))
        write(
            store,
            rec("user:ann", 1, b"fewer grants", kind="principal"),
            rec("t1", 1, None),
            rec("t2", 1, b"2"),
            rec("user:ann", 0, b"sweep", kind="sweep"),
        )
        assert stands(store, "user:ann", kind="principal") == (2, b"fewer grants")
        assert stands(store, "user:ann", kind="sweep") == (1, b"sweep")
        assert stands(store, "t2") == (2, b"2")
        assert (read(store, "t1"), names(store)) == (None, ["t2"])

    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_rule_06_where_one_conflicts_none_is_written(self, store: Store, place: int) -> None:
        write(store, rec("changed", 0, b"1"), rec("removed", 0, b"1"))
        puts = [rec("changed", 1, b"2"), rec("removed", 1, None), rec("new", 0, b"1")]
        puts.insert(place, rec("other", 7, b"1"))
        with pytest.raises(Conflict, match="token other is at version 0, not 7"):
            write(store, *puts)
        assert (stands(store, "changed"), stands(store, "removed")) == ((1, b"1"), (1, b"1"))
        assert names(store) == ["changed", "removed"]

    def test_one_that_is_named_twice_is_compared_with_what_it_is_by_then(self, store: Store) -> None:
        with pytest.raises(Conflict, match="token t1 is at version 1, not 0"):
            write(store, rec("t1", 0, b"1"), rec("t1", 0, b"2"))
        assert read(store, "t1") is None
        write(store, rec("t1", 0, b"1"), rec("t1", 1, b"2"), rec("t2"), rec("t2", 1, None))
        assert stands(store, "t1") == (2, b"2")
        assert names(store) == ["t1"]

    def test_nothing_at_all_may_be_written(self, store: Store) -> None:
        write(store)
        assert names(store) == []

    # -- limits -------------------------------------------------------------------------------------------

    def test_rule_12_a_hundred_at_once_and_not_one_more(self, store: Store) -> None:
        most = [rec(f"t{n:03}") for n in range(MOST_RECORDS)]
        with pytest.raises(ContractError, match=f"{MOST_RECORDS + 1}.* limit is {MOST_RECORDS}"):
            write(store, *most, rec("one more"))
        assert names(store) == []
        write(store, *most)
        assert names(store, limit=200) == [one.name for one in most]

    def test_rule_12_a_body_of_64_kib_and_not_a_byte_more(self, store: Store) -> None:
        body = bytes(range(256)) * (MOST_BYTES // 256)
        with pytest.raises(ContractError, match=rf"token large .*{MOST_BYTES + 1} bytes"):
            write(store, rec("small"), rec("large", 0, body + b"x"))
        assert names(store) == []
        write(store, rec("large", 0, body), rec("empty", 0, b""))
        assert stands(store, "large") == (1, body)
        assert stands(store, "empty") == (1, b"")

    # -- finding ------------------------------------------------------------------------------------------

    def test_kinds_do_not_meet(self, store: Store) -> None:
        for n, kind in enumerate(("token", "tok", "token:", "")):
            write(store, rec("x", 0, b"%d" % n, kind=kind), rec(f"x{n}", kind=kind))
        assert stands(store, "x", kind="token:") == (1, b"2")
        assert names(store) == ["x", "x0"]
        assert names(store, kind="") == ["x", "x3"]
        assert names(store, kind="principal") == []

    def test_they_are_found_in_the_order_of_their_bytes_page_by_page(self, store: Store) -> None:
        write(store, *(rec(name, 0, name.encode()) for name in SORTED[::2] + SORTED[1::2]))
        assert names(store) == SORTED
        pages: list[str] = []
        while page := names(store, pages[-1] if pages else "", 3):
            assert len(page) == min(3, len(SORTED) - len(pages))
            pages += page
        assert pages == SORTED
        rows = cast("list[RecordRow]", store.find(FindRecords(kind="token", after="漢", limit=2)))
        assert [(row.kind, row.version, row.body.decode()) for row in rows] == [
            ("token", 1, "\uffee"),
            ("token", 1, "😀"),
        ]

    def test_a_page_begins_after_a_name_that_need_not_be_there(self, store: Store) -> None:
        write(store, *(rec(name) for name in ("a", "c", "e")))
        assert names(store, "b") == ["c", "e"]
        write(store, rec("c", 1, None))
        assert names(store, "c") == ["e"]
        assert names(store, "e") == []

    @pytest.mark.parametrize(("limit", "found"), [(0, 0), (1, 1), (120, 120), (250, 250), (300, 250)])
    def test_as_many_are_found_as_were_asked_for(self, store: Store, limit: int, found: int) -> None:
        for first in range(0, 250, 50):
            write(store, *(rec(f"t{n:03}") for n in range(first, first + 50)))
        assert names(store, limit=limit) == [f"t{n:03}" for n in range(found)]

    # -- others at the same time ---------------------------------------------------------------------------

    def test_another_store_object_finds_them(self, connect: Callable[[], Store]) -> None:
        one, two = connect(), connect()
        write(one, rec("t1"))
        with pytest.raises(Conflict, match="is at version 1, not 0"):
            write(two, rec("t1"))
        write(two, rec("t1", 1, b"two"))
        assert stands(one, "t1") == (2, b"two")

    def test_rule_09_of_many_who_change_one_version_one_does(self, connect: Callable[[], Store]) -> None:
        stores = [connect(), connect()]
        write(stores[0], rec("t1"), rec("t2"))

        def change(n: int) -> str:
            try:
                write(stores[n % 2], rec("t2", 1, b"by %d" % n), rec("t1", 1, b"by %d" % n))
            except Conflict:
                return "conflict"
            return f"by {n}"

        said = Counter(together(8, change))
        assert said.pop("conflict") == 7
        (winner,) = said
        assert stands(stores[0], "t1") == stands(stores[0], "t2") == (2, winner.encode())

    def test_of_two_who_read_and_write_again_no_change_is_lost(self, connect: Callable[[], Store]) -> None:
        stores = [connect(), connect()]
        write(stores[0], rec("t1", 0, b"0"))

        def count(n: int) -> None:
            changed = 0
            while changed < 20:
                version, body = stands(stores[n], "t1")
                try:
                    write(stores[n], rec("t1", version, b"%d" % (int(body) + 1)))
                except Conflict:
                    continue
                changed += 1

        together(2, count)
        assert stands(stores[0], "t1") == (41, b"40")

    def test_a_conflict_harms_nobody_who_writes_at_the_same_moment(self, store: Store) -> None:
        """Also where the store writes for several threads at once."""
        write(store, rec("taken"))
        over = threading.Event()

        def run(n: int) -> None:
            if n:
                for version in range(20):
                    done(store, step(f"s0-{n}", version))
                    write(store, rec(f"t{n}", version, b"%d" % version))
                over.set()
                return
            while not over.is_set():
                with pytest.raises(Conflict):
                    write(store, rec("never"), rec("taken"))

        together(4, run)
        assert [store.load(f"s0-{n}").version for n in (1, 2, 3)] == [20] * 3
        assert [stands(store, f"t{n}") for n in (1, 2, 3)] == [(20, b"19")] * 3
        assert read(store, "never") is None

    def test_rule_01_after_a_lost_reply_it_is_written_and_a_second_try_conflicts(self, store: Store) -> None:
        faulty = FaultyStore(store, Script("before", "after"))
        with pytest.raises(Unavailable):
            write(faulty, rec("t1"))
        assert read(store, "t1") is None
        with pytest.raises(Unavailable):
            write(faulty, rec("t1"))
        with pytest.raises(Conflict, match="is at version 1, not 0"):
            write(faulty, rec("t1"))
        assert stands(store, "t1") == (1, b"{}")

    @pytest.mark.parametrize("wrong", ["\ud800", None, 5])
    def test_rule_11_what_is_no_text_names_no_record(self, store: Store, wrong: Any) -> None:
        for put in (rec(wrong), rec("a", kind=wrong)):
            with pytest.raises(ContractError):
                write(store, put)
        with pytest.raises(ContractError):
            read(store, wrong)
