"""Fixtures of the tests with real processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A store in a folder of its own; every process that the test started ends with it."""
    made = Site(tmp_path)
    yield made
    made.close()
