"""The files of the archive: whole or not there, found again, and what becomes of one that is damaged."""

import gzip
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from passdown.broker.archive import Archive, Entry, archived_lines, lines_of, own_line
from passdown.broker.stores.queries import SessionRow
from passdown.contracts.errors import ContractError, NotFound, PassdownError, Unavailable
from tests.conformance.building import row
from tests.unit.broker.rig import Rig


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def a_session(key: str, *, more: int = 0) -> tuple[SessionRow, list[bytes]]:
    """Return a session's row and its lines, as they would be archived, with so many bytes more in its inputs."""
    rig = Rig()
    session = rig.open(key=key, inputs={"text": "x" * more})
    (found,) = rig.broker.sessions()
    state = rig.store.load(session.id).state
    assert state is not None
    lines = archived_lines(session.id, found.version, state, rig.store.events(session.id), [])
    return found, [*lines, own_line(session.id, "end")]


def write(archive: Archive, *keys: str, more: int = 0) -> Path:
    """Write a file with sessions of these keys."""
    sessions = [a_session(key, more=more) for key in keys]
    with archive.writing([one for one, _ in sessions]) as writing:
        for _, lines in sessions:
            writing.lines(lines)
        writing.complete()
        writing.finish()
    return writing.path


def listed(archive: Archive) -> list[str]:
    """Return keys in the order of the list, and the kind of error for what cannot be read."""
    return [one.row.key if isinstance(one, Entry) else type(one).__name__ for one in archive.entries()]


def test_a_file_lies_in_a_folder_of_its_day(archive: Archive) -> None:
    path = write(archive, "a")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d/\d{8}T\d{9}Z-[0-9a-f]{8}\.jsonl\.gz", str(path.relative_to(archive.folder))
    )
    assert path.parent.name.replace("-", "") == path.name[:8]


def test_it_can_be_read_with_what_every_machine_has(archive: Archive) -> None:
    lines = gzip.decompress(write(archive, "a").read_bytes()).splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds[:2] == ["archive", "session"]
    assert kinds[-2:] == ["logged", "end"]


def test_until_it_is_finished_there_is_no_file_and_then_nothing_else(archive: Archive) -> None:
    found, lines = a_session("a")
    with archive.writing([found]) as writing:
        writing.lines(lines)
        writing.complete()
        assert list(archive.files()) == []
        writing.finish()
        assert list(archive.files()) == [writing.path]
    assert [path.name for path in writing.path.parent.iterdir()] == [writing.path.name]


def test_what_is_not_finished_is_thrown_away(archive: Archive) -> None:
    found, lines = a_session("a")
    with archive.writing([found]) as writing:
        writing.lines(lines)
        writing.complete()
    assert [path for path in archive.folder.rglob("*") if path.is_file()] == []


def test_what_a_dead_process_left_is_removed_after_an_hour_and_not_before(archive: Archive) -> None:
    path = write(archive, "a")
    old, young = (path.with_name(f"{name}.jsonl.gz.part") for name in ("old", "young"))
    for part in (old, young):
        part.write_bytes(b"half")
    hours_ago = time.time() - 3_700
    os.utime(old, (hours_ago, hours_ago))
    os.utime(path, (hours_ago, hours_ago))
    archive.sweep()
    assert sorted(one.name for one in path.parent.iterdir()) == sorted([path.name, young.name])
    assert listed(archive) == ["a"]


def test_they_are_listed_and_found_the_newest_first(archive: Archive) -> None:
    write(archive, "a", "b")
    time.sleep(0.002)  # names tell milliseconds
    newer = write(archive, "c", "a", more=100)
    assert listed(archive) == ["a", "c", "b", "a"]
    found = archive.find("a")
    assert found.entry.path == newer
    assert archive.find(found.session_id) == found
    assert list(lines_of(found))[-1] == own_line(found.session_id, "end")
    assert len(list(lines_of(found))) < len(gzip.decompress(newer.read_bytes()).splitlines())


def test_a_session_that_a_file_names_and_does_not_hold_is_looked_for_further_back(archive: Archive) -> None:
    older = write(archive, "a")
    time.sleep(0.002)
    found, lines = a_session("a")
    for held in ([], lines[:-1]):
        with archive.writing([found, row("s0-other", 1)]) as writing:
            writing.lines(held)
            writing.complete()
            writing.finish()
        assert archive.find("a").entry.path == older
    with pytest.raises(NotFound, match=r"there is no archived session 's0-other'; in "):
        archive.find("s0-other")


def test_an_archived_session_reads_as_in_a_store(archive: Archive) -> None:
    write(archive, "a", "b")
    found = archive.find("b")
    name = found.entry.row.session_id
    assert (found.load(name).state, found.load(name).version) == (found.state, len(found.logged))
    assert found.load("s0-other").state is None
    assert found.events(name, after=1, limit=1) == found.logged[1:2]
    assert found.events("s0-other") == []


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "zeros": lambda data: data[:100] + bytes(40) + data[140:],
    "no gzip": lambda data: b"dear diary"[: len(data)],
    "empty": lambda data: data[:0],
    "no JSON": lambda data: gzip.compress(data[:0] + b"dear diary"),
    "newer": lambda data: gzip.compress(gzip.decompress(data).replace(b"archive/1", b"archive/9")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_hides_no_other(archive: Archive, damage: str) -> None:
    path = write(archive, "a", "b", more=20_000)
    time.sleep(0.002)
    write(archive, "c")
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert archive.find("c").entry.row.key == "c"
    assert listed(archive)[0] == "c"
    with pytest.raises(ContractError, match=re.escape(path.name)):
        archive.find("b")


def test_a_file_that_may_not_be_read_is_said(archive: Archive) -> None:
    path = write(archive, "a")
    path.unlink()
    path.mkdir()
    (said,) = archive.entries()
    assert isinstance(said, PassdownError)
    with pytest.raises(Unavailable, match=path.name):
        archive.find("a")


def test_the_folder_is_not_made(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "gone")
    with pytest.raises(Unavailable, match="there is no such folder"), archive.writing([]):
        pass
    assert list(archive.entries()) == []
    assert not archive.folder.exists()
