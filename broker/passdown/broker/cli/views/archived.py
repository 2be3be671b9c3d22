"""An archived session with all its branches, out of the files in which they are."""

from collections.abc import Iterator

from passdown.broker.archive import Archive, Archived, Entry, read_tree


class Tree:
    """Gives each session of a tree once, as it was archived last, one at a time in memory.

    ``missing``, after that, are the branches that are in no file.
    """

    def __init__(self, archive: Archive, name: str) -> None:
        """Find it by the id or key of its session, or the id of a branch. Raises as `Archive.find` does."""
        self._found = archive.find(name)
        self._root = self._found.entry.row.session_id
        self._archive = archive
        self.path = self._found.entry.path
        self.missing: list[str] = []

    def __iter__(self) -> Iterator[Archived]:
        """Read the files. Raises ContractError where one is damaged, Unavailable where it cannot be read."""
        if not self._found.entry.fans:
            yield self._found
            return
        # Where some branches were gone when their file was written, an earlier one has them.
        entries = [
            entry for entry in self._archive.entries() if isinstance(entry, Entry) and self._mine(entry)
        ]
        left = {branch for entry in entries for fan in entry.fans for branch in fan.ids()} | {self._root}
        for entry in entries:
            if not left:
                break
            for one in read_tree(entry):
                if one.session_id in left:
                    left.discard(one.session_id)
                    yield one
        self.missing = sorted(left)

    def _mine(self, entry: Entry) -> bool:
        return bool(entry.fans) and entry.row.session_id == self._root
