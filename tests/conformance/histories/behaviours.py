"""What hypothesis draws: how agents behave, what becomes of them, what happens beside."""

from dataclasses import replace

from hypothesis import strategies as st

from tests.conformance.histories.desks import LEASE_MS, Deed
from tests.conformance.histories.jobs import HONEST, End, Script
from tests.conformance.histories.outside import Writing
from tests.conformance.histories.plans import LEASE_S, NEWS, PLANS
from tests.conformance.histories.world import KEYS, PEOPLE

SECOND, DAY = 1_000, 86_400_000

_WRITINGS: tuple[Writing, ...] = ("ok", "not-done", "lost", "never", "silent")
_ENDS: tuple[End, ...] = (
    "done",
    "needs-input",
    "refused",
    "escalate",
    "fail",
    "junk",
    "misfit",
    "foreign",
    "ungranted",
    "release",
    "vanish",
)
_QUIRKS = (
    "read",
    "checkpoint",
    "parallel",
    "changed",
    "after",
    "stubborn",
    "twice",
    "confused",
    "hand_back",
    "bulky",
    "greedy",
)

#: Behaviours that lead somewhere; hypothesis mixes others.
PERSONAS = [
    HONEST,
    HONEST,
    HONEST,
    Script(read=True, checkpoint=True),
    Script(end="needs-input", checkpoint=True),
    Script(end="needs-input"),
    Script(end="refused"),
    Script(end="escalate"),
    Script(end="fail", read=True),
    Script(end="junk"),
    Script(end="misfit"),
    Script(end="vanish"),
    Script(end="release", writings=("silent",)),
    Script(writings=("silent",), parallel=True),
    Script(writings=("lost",)),
    Script(writings=("never",)),
    Script(writings=("not-done",)),
    Script(writings=("ok", "lost"), parallel=True),
    Script(changed=True),
    Script(changed=True),
    Script(greedy=True),
    Script(idle=True),
    Script(changed=True, after=True),
    Script(decision="again", read=True, bulky=True),
    Script(decision="deny", checkpoint=True),
    Script(suggest="check"),
    Script(twice=True, checkpoint=True, read=True),
    Script(confused=True, sure=False),
    Script(sure=False),
    Script(bulky=True, end="needs-input"),
]

#: Acts under a fence that is not the current one.
FORGED = ("give", "fail", "checkpoint", "intend", "release", "settle", "report", "report", "claim", "flood")

small = st.integers(0, 7)
people = st.sampled_from(PEOPLE)
deciders = st.sampled_from(["user:dan", "user:dan", "user:ann"])
#: Two who get in each other's way.
colleagues = st.sampled_from(["user:dan", "user:bob"])
#: One thing after the other about one ticket; most begin with a claim, since most others need one.
at_desks = st.lists(
    st.builds(
        Deed,
        st.sampled_from(
            [
                "claim",
                "claim",
                "claim",
                "take over",
                "extend",
                "release",
                "give",
                "move",
                "snooze",
                "wake",
                "comment",
                "decide",
                "decide late",
            ]
        ),
        colleagues,
        st.sampled_from([0, 0, 0, LEASE_MS // 2, LEASE_MS + 1]),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)
keys = st.sampled_from(KEYS)
plans = st.sampled_from([plan.name for plan in PLANS])
writings = st.sampled_from(_WRITINGS)
#: How far an attempt gets: to each of its points.
lengths = st.integers(1, 14)
#: What becomes of a worker in the middle of an attempt; where it freezes or dies for long, its lease is lost.
fates = st.sampled_from(["goes on", "crashes", "freezes", "dies"])
seconds = st.sampled_from([0, 0.5, 2, 11, LEASE_S + 1, LEASE_S + 1, 130, 3_700])


@st.composite
def _mixed(draw: st.DrawFn) -> Script:
    quirks = draw(st.sets(st.sampled_from(_QUIRKS), max_size=4))
    return Script(
        writings=tuple(draw(st.lists(writings, min_size=1, max_size=3))),
        end=draw(st.sampled_from(_ENDS)),
        decision=draw(st.sampled_from(["approve", "deny", "again", "unmapped"])),
        suggest=draw(st.sampled_from([None, "check", "tell", "nowhere"])),
        sure=draw(st.booleans()),
        takes_on=draw(st.booleans()),
        **dict.fromkeys(quirks, True),
    )


def _twisted(script: Script, twist: str | None) -> Script:
    return replace(script, **{twist: True}) if twist else script


_twists = st.sampled_from(
    [None, None, None, None, "changed", "changed", "checkpoint", "parallel", "stubborn", "twice"]
)
_personas = st.builds(_twisted, st.sampled_from(PERSONAS), _twists)
scripts = st.one_of(_personas, _personas, _mixed())

disturbances = st.one_of(
    st.tuples(st.just("clock"), st.sampled_from([-DAY, -40 * SECOND, -1, 1, 40 * SECOND, 3 * DAY])),
    st.tuples(
        st.just("store"),
        st.lists(st.sampled_from([None, "before", "after", "stale"]), min_size=1, max_size=6),
    ),
    st.tuples(st.just("news"), st.sampled_from(sorted(NEWS))),
    st.tuples(st.just("late due"), st.tuples(small, small)),
    st.tuples(st.just("again"), st.integers(0, 30)),
)
