"""The conformance suite: what every store must pass. A driver is a few lines, see `test_sqlite_store.py`."""

from tests.conformance.suite_bells import BellSuite
from tests.conformance.suite_commits import CommitSuite
from tests.conformance.suite_dues import DueSuite
from tests.conformance.suite_faults import FaultSuite
from tests.conformance.suite_join_checks import JoinCheckSuite
from tests.conformance.suite_joins import JoinSuite
from tests.conformance.suite_leases import LeaseSuite
from tests.conformance.suite_pages import PageSuite
from tests.conformance.suite_queue import QueueSuite
from tests.conformance.suite_reading import FindSuite, PutSuite
from tests.conformance.suite_removal import RemovalSuite
from tests.conformance.suite_telling import TellingSuite
from tests.conformance.suite_threads import ThreadSuite


class StoreSuite(
    CommitSuite,
    QueueSuite,
    BellSuite,
    LeaseSuite,
    DueSuite,
    TellingSuite,
    RemovalSuite,
    JoinSuite,
    JoinCheckSuite,
    PageSuite,
    FindSuite,
    PutSuite,
    ThreadSuite,
    FaultSuite,
):
    """All of it."""
