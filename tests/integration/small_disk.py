"""A disk that can be filled."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk:
    """A small file system of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Leave no byte."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (65_536, 4_096, 512, 1):
                try:
                    while file.write(b"x" * size) == size:
                        continue
                except OSError:
                    continue

    def make_room(self) -> None:
        """Make all of it free again that was filled."""
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path) -> Generator[Disk]:
    """Yield a disk of 3 MB at `path`; skips the test where none can be mounted."""
    path.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        if os.environ.get("CI") and os.geteuid() == 0:
            pytest.fail(f"cannot mount a small disk: {made.stderr}")
        pytest.skip(f"cannot mount a small disk, which needs root: {made.stderr.strip()}")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
