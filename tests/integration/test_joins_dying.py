"""Three levels of branches, and merges, in real processes that are killed at any moment."""

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from passdown.broker.client import Session
from passdown.broker.gateway import Limits
from passdown.broker.worker import WorkerSpec
from passdown.contracts.codec import decode, encode
from passdown.contracts.plans import FanOut, Grant, Plan, Stage
from tests.integration.flow import CLAIM_BY_MS, say
from tests.integration.joins import assert_joined_once, counted, family
from tests.integration.proof import applied, assert_once, assert_sound
from tests.integration.site import Site, stage, wait_until
from tests.servers.redis import RedisServer
from tests.soaking import scaled

DESK = str(Path(__file__).with_name("join_desk.py"))
#: Many, for what is killed again and again must not come to a person; and a lease that is soon over (seconds).
ATTEMPTS, LEASE_S = 50, 2.0


def tree_plan() -> Plan:
    """Three levels, each over a list of its own; the leaves write, and each level adds up."""

    def fan(each: str, begins: str) -> Stage:
        merged = FanOut(each=each, stage=begins, merge="reduce:total")
        return Stage(fan_out=merged, max_attempts=ATTEMPTS, lease_seconds=LEASE_S)

    return Plan(
        name="tree",
        start="top",
        stages={
            "top": fan("a", "middle"),
            "middle": fan("b", "low"),
            "low": fan("c", "leaf"),
            "leaf": stage(
                "counter",
                tools=[Grant(tool="tally.add")],
                max_attempts=ATTEMPTS,
                recovery="continue",
                lease_seconds=LEASE_S,
            ),
        },
    )


def start_worker(site: Site, *roles: str) -> "subprocess.Popen[bytes]":
    """Start a worker of this module's agents, which leaves what it only reserved soon."""
    spec = decode(site.spec(list(roles)).encode(), WorkerSpec)
    limits = Limits(claim_by_ms=CLAIM_BY_MS)
    return site.start("passdown.broker.worker", encode(replace(spec, modules=[DESK], limits=limits)).decode())


@pytest.fixture(params=["sqlite", "redis"])
def any_site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    urls: tuple[str, ...] = ()
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("durable_redis")
        urls = (server.url(0), server.url(1))
    made = Site(tmp_path, *urls)
    yield made
    made.close()


def kill_at_random(site: Site, leaves: int, kills: int, chance: random.Random) -> None:
    """Kill a worker or a tick each time that some more leaves have written, and start another."""
    starting: dict[str, Callable[[], subprocess.Popen[bytes]]] = {
        "worker": lambda: start_worker(site, "counter"),
        "tick": site.tick,
    }
    running = [(what, starting[what]()) for what in ("worker", "worker", "tick")]
    for written in sorted(chance.sample(range(1, leaves), kills)):
        wait_until(
            lambda least=written: len(applied(site.outside)) >= least, f"{written} leaves have written", 60
        )
        n = chance.randrange(len(running))
        what, process = running[n]
        site.kill(process)
        running[n] = (what, starting[what]())


def prove_tree(site: Site, session: Session, leaves: int) -> None:
    """Hold a tree to the rules: right, each leaf's effect once, each join once."""
    tree = list(family(session, site.broker))
    for one in tree:
        assert one.status() == "done", one.id
        assert_sound(one)
        assert_once(one, site.outside)
        assert_joined_once(one, site.broker)
    assert sorted(applied(site.outside).values()) == [1] * leaves


def test_rules_01_and_03_three_levels_survive_kills(any_site: Site) -> None:
    chance = random.Random(27)
    any_site.broker.register(tree_plan())
    session = any_site.broker.submit("tree", inputs={name: [1, 2, 3] for name in "abc"})
    kill_at_random(any_site, 27, 4, chance)
    assert session.result(timeout_s=90).output == {"n": 27}
    any_site.end()
    prove_tree(any_site, session, 27)


@pytest.mark.soak
def test_rules_01_and_03_three_levels_survive_many_kills(any_site: Site) -> None:
    seed = int(os.environ.get("SOAK_SEED", str(random.SystemRandom().randrange(10**6))))
    say(f"three levels: SOAK_SEED={seed}")
    chance = random.Random(seed)
    any_site.broker.register(tree_plan())
    inputs = {"a": list(range(scaled(9, at_least=3))), "b": [1, 2, 3], "c": [1, 2, 3]}
    leaves = len(inputs["a"]) * 9
    session = any_site.broker.submit("tree", inputs=inputs)
    kill_at_random(any_site, leaves, scaled(60, at_least=15), chance)
    assert session.result(timeout_s=300).output == {"n": leaves}
    any_site.end()
    prove_tree(any_site, session, leaves)


@pytest.mark.parametrize("merge", ["reduce:dying", pytest.param("dying-judge", marks=pytest.mark.soak)])
def test_rule_01_a_worker_that_dies_in_the_middle_of_a_merge(site: Site, merge: str) -> None:
    """The merge is an attempt like any other: its lease is lost, and the next one reads the same branches."""
    stages = {
        "fan": Stage(fan_out=FanOut(each="items", stage="one", merge=merge), lease_seconds=1.0),
        "one": stage("counter", tools=[Grant(tool="tally.add")]),
    }
    site.broker.register(Plan(name="fan", start="fan", stages=stages))
    site.tick()
    session = site.broker.submit("fan", inputs={"items": [1, 2, 3]})
    doomed = start_worker(site, "counter", "dying-judge")
    doomed.wait(timeout=60)
    start_worker(site, "counter", "dying-judge")
    assert session.result(timeout_s=60).output == {"n": 3}
    assert counted(session)["LeaseLost"] == 1
    assert counted(session)["Joined"] == 1
    assert_joined_once(session, site.broker)


@pytest.mark.parametrize(
    "point",
    ["before_give", *(pytest.param(one, marks=pytest.mark.soak) for one in ("after_claim", "after_give"))],
)
def test_rule_01_a_worker_that_dies_around_a_merge_of_ours(site: Site, point: str) -> None:
    """The same for the merges that Passdown does itself."""
    stages = {
        "fan": Stage(fan_out=FanOut(each="items", stage="one"), lease_seconds=1.0),
        "one": stage("counter", tools=[Grant(tool="tally.add")]),
    }
    site.broker.register(Plan(name="fan", start="fan", stages=stages))
    site.tick()
    session = site.broker.submit("fan", inputs={"items": [1, 2, 3]})
    spec = decode(site.spec(["counter"]).encode(), WorkerSpec)
    text = encode(replace(spec, modules=[DESK], limits=Limits(claim_by_ms=CLAIM_BY_MS))).decode()
    marker = site.folder / "killed"
    doomed = site.start("tests.integration.killing_merges", text, point, str(marker))
    doomed.wait(timeout=60)
    assert marker.exists()
    site.start("tests.integration.killing_merges", text, point, str(marker))
    results = session.result(timeout_s=60).output["results"]
    assert [one["output"] for one in results] == [{"n": 1}] * 3
    assert_joined_once(session, site.broker)
    assert_sound(session)


def test_a_merge_that_never_returns_ends_at_its_time_limit(site: Site) -> None:
    stages = {
        "fan": Stage(
            fan_out=FanOut(each="items", stage="one", merge="reduce:hanging"),
            time_limit_seconds=0.3,
            max_attempts=2,
            on_failed="fail",
        ),
        "one": stage("counter", tools=[Grant(tool="tally.add")]),
    }
    site.broker.register(Plan(name="fan", start="fan", stages=stages))
    site.tick()
    session = site.broker.submit("fan", inputs={"items": [1, 2]})
    start_worker(site, "counter")
    outcome = session.result(timeout_s=60)
    assert (outcome.result, "longer than its time limit" in outcome.reason) == ("failed", True)
    assert counted(session)["ReturnRejected"] == 2
    (site.folder / "let-go").touch()
