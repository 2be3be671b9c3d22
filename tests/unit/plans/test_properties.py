import copy
from typing import Any, cast

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from passdown.broker.plans import check_plan, compile_plan
from passdown.broker.plans.compiling import compile_whole
from passdown.contracts import plans as stored
from passdown.contracts.codec import decode, digest_of, encode
from passdown.contracts.errors import PlanError
from tests.unit.plans.samples import DECISION

TARGETS: st.SearchStrategy[Any] = st.sampled_from(["a", "b", "c", "end"])
TEXTS: st.SearchStrategy[Any] = st.lists(st.text(min_size=1).filter(str.strip))
NUMBERS: st.SearchStrategy[Any] = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(
    allow_nan=False, allow_infinity=False
)
OBJECTS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(st.text(), st.fixed_dictionaries({"maximum": NUMBERS})),
    }
)
GRANTS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"tool": st.sampled_from(["t", "u.v"])},
    optional={
        "params": st.dictionaries(st.text(), st.fixed_dictionaries({"maximum": NUMBERS})),
        "approve": st.just("people"),
    },
)
PEOPLE: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "candidates": st.lists(st.sampled_from(["user:ann", "group:legal", "service:x"]), unique=True),
        "skills": st.lists(st.sampled_from(["german", "{inputs.x}"]), unique=True),
        "exclude_initiator": st.booleans(),
        "lease": st.sampled_from(["10s", "15m", "1d"]),
        "due": st.sampled_from(["90s", "40h"]),
        "calendar": st.sampled_from(["", "office"]),
    },
)
SPANS: st.SearchStrategy[Any] = st.lists(
    st.sampled_from(["00:00-09:30", "09:30-12:00", "13:00-24:00"]), unique=True
).map(sorted)
OFFICE: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"zone": st.sampled_from(["UTC", "Europe/Berlin"]), "weekdays": st.just(["09:00-17:00"])},
    optional={
        "hours": st.dictionaries(st.sampled_from(["fri", "sat", "sun"]), SPANS),
        "holidays": st.lists(st.dates(), unique=True, max_size=3),
    },
)
SUBJECTS: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from(["account", "order-line"]),
    st.text().filter(str.strip)
    | st.lists(st.text().filter(str.strip), min_size=1, unique=True)
    | st.just({"pattern": "[A-Z0-9]{6}"}),
)
MOVES: st.SearchStrategy[Any] = (
    st.just("end")
    | st.sets(st.sampled_from("abc")).map(lambda more: {"suggest": ["end", *sorted(more)]})
    | st.fixed_dictionaries({"field": st.just("decision"), "approve": TARGETS, "deny": st.just("end")})
    | st.fixed_dictionaries({"done": st.just("end"), "refused": TARGETS})
)
STAGES: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["analyst", "cashier"]),
        "returns": st.just({"schema": DECISION}),
        "next": MOVES,
    },
    optional={
        "goal": st.text(),
        "constraints": TEXTS,
        "done_when": TEXTS,
        "inputs": OBJECTS,
        "ask": st.sampled_from(["producer", "people"]),
        "tools": st.lists(
            st.just("w") | GRANTS, unique_by=lambda grant: grant if grant == "w" else grant["tool"]
        ),
        "lease": st.sampled_from(["100ms", "90s", "1h30m"]),
        "deadline": st.sampled_from(["2h", "3650d"]),
        "backoff": st.fixed_dictionaries({"first": st.just("0.3s"), "factor": st.floats(1, 100)}),
        "on_failed": st.just("fail") | TARGETS,
        "recovery": st.sampled_from(["rerun", "continue", "human"]),
        "priority": st.integers(-100, 100),
        "escalation": st.lists(st.sampled_from(["leads", "bosses"]), max_size=1),
        "overdue": st.fixed_dictionaries({"after": st.just("1h"), "to": st.sampled_from(["a", "b", "fail"])}),
        "people": PEOPLE,
        "permits": st.lists(
            st.just({"tool": "x", "queue": "people", "approvals": 1, "params": {"n": {"maximum": 5}}}),
            max_size=1,
        ),
    },
)
#: One field each, and none that lists are in.
FIELDS: st.SearchStrategy[Any] = st.text().filter(
    lambda text: bool(text.strip()) and "." not in text and text not in ("items", "order")
)
FAN_OUTS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "fan_out": st.fixed_dictionaries(
            {"branches": st.sampled_from([{"one": "leaf"}, [["one", "leaf"], ["two", "leaf"]]])},
            optional={"at_once": st.integers(0, 100_000), "give": st.just(["order"])},
        )
        | st.fixed_dictionaries(
            {"each": st.sampled_from(["items", "order.items"]), "stage": st.just("leaf")},
            optional={"item": FIELDS, "key": st.just("") | FIELDS, "most": st.integers(2, 100_000)},
        ),
        "join": st.fixed_dictionaries(
            {"need": st.sampled_from(["all", "any", "veto", 1])},
            optional={
                "merge": st.sampled_from(["collect", "first", "reduce:sum.up", "vote", "editor"]),
                "deadline": st.sampled_from(["90s", "1h"]),
                "conflict": st.just(["decision"]),
                "on_short": st.sampled_from(["merge", "fail", "b", "people"]),
                "wait_for_people": st.booleans(),
            },
        ),
        "next": st.just("end") | st.just("b"),
    },
    optional={"goal": st.text(), "deadline": st.just("2h"), "on_failed": st.just("fail") | TARGETS},
)
LEAF = {"role": "leaf", "returns": {"schema": DECISION}}
FIRST: st.SearchStrategy[Any] = STAGES.map(
    lambda stage: {**stage, "next": {"suggest": ["b", "c", "fan", "end"]}}
)
#: Plans that are sound, however odd what stands in them.
PLANS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["p", "refund.eu"]),
        "start": st.just("a"),
        "stages": st.fixed_dictionaries(
            {"a": FIRST, "b": STAGES, "c": STAGES, "fan": FAN_OUTS, "leaf": st.just(LEAF)}
        ),
        "calendars": st.fixed_dictionaries({"office": OFFICE}),
    },
    optional={
        "version": st.integers(1, 2**53 - 1),
        "description": st.text(),
        "max_steps": st.integers(1, 100_000),
        "subjects": SUBJECTS,
    },
)
SOUND: dict[str, Any] = {
    "name": "refund",
    "version": 2,
    "start": "check",
    "calendars": {
        "office": {
            "zone": "Europe/Berlin",
            "weekdays": ["09:00-17:00"],
            "hours": {"fri": ["09:00-12:00", "13:00-15:00"]},
            "holidays": ["2026-12-25"],
        }
    },
    "subjects": {"account": "user_id", "order": ["orderId"], "code": {"pattern": "[A-Z0-9]{6}"}},
    "stages": {
        "check": {
            "role": "analyst",
            "goal": "Decide about {inputs.orderId}.",
            "constraints": ["be quick"],
            "inputs": {"type": "object", "properties": {"orderId": {"type": "string"}}},
            "tools": [
                "orders.read",
                {"tool": "refunds.create", "approve": "people", "params": {"cents": {"maximum": 5}}},
            ],
            "scopes": ["refunds:write"],
            "returns": {"schema": DECISION, "evidence": "required", "results": ["done", "refused"]},
            "lease": "90s",
            "deadline": "3d",
            "backoff": {"first": "2s", "factor": 3, "most": "1m"},
            "next": {"field": "decision", "approve": "ask", "deny": "tell"},
            "on_refused": "tell",
            "escalation": ["leads", {"queue": "bosses", "after": "1h30m", "hand_over": {"type": "string"}}],
            "overdue": {"after": "8h", "to": "fail"},
            "people": {"candidates": ["group:legal"], "skills": ["{inputs.orderId}"], "calendar": "office"},
            "permits": [{"tool": "mail.send", "queue": "leads", "params": {"to": {"type": "string"}}}],
        },
        "ask": {"queue": "people", "deadline": "2d", "next": {"suggest": ["check", "tell"], "done": "tell"}},
        "tell": {"role": "desk", "next": {"done": "read", "failed": "fail"}, "ask": "people"},
        "read": {
            "fan_out": {
                "each": "documents",
                "stage": "judge",
                "key": "id",
                "give": ["orderId"],
                "at_once": 8,
            },
            "join": {
                "need": 2,
                "counts": ["done", "refused"],
                "deadline": "1h",
                "merge": "vote",
                "vote_on": ["decision"],
                "conflict": ["decision"],
                "on_conflict": "ask",
                "on_short": "people",
            },
            "deadline": "2h",
        },
        "judge": {"role": "judge", "returns": {"schema": DECISION}},
    },
}
CONTAINERS: list[Any] = [[], {}, [[]], {"": {}}, {1: 2}, {"field": "x"}, {"$ref": "#"}, {"type": 5}, set()]
JUNK: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**5000)
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", "end", "fail", "producer", "\0name", "[key]", "0s", "x" * 70_000])
    | st.binary()
    | st.sampled_from([*CONTAINERS, object(), int, object])
)
STRANGE_KEYS: list[Any] = [
    5,
    None,
    "\0role",
    "\ud800",
    "[key]",
    "queue",
    "fan_out",
    "join",
    "branches",
    "people",
]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(PLANS)
def test_a_plan_that_is_stored_and_read_keeps_its_digest_and_is_still_sound(authored: dict[str, Any]) -> None:
    plan = compile_plan(authored)
    read = decode(encode(plan), stored.Plan)
    assert read == plan
    assert digest_of(read) == digest_of(plan) == digest_of(compile_plan(copy.deepcopy(authored)))
    assert [fault for fault in check_plan(read) if fault.severity == "fault"] == []


def keys_of(container: Any) -> list[Any]:
    """Return where something stands in a list or a table; nowhere for anything else."""
    if isinstance(container, dict):
        return list(cast("dict[Any, Any]", container))
    return list(range(len(cast("list[Any]", container)))) if isinstance(container, list) else []


def mutated(plan: Any, data: st.DataObject) -> Any:
    """Return `plan` with junk at some place, or something missing there."""
    keys = keys_of(plan)
    if not keys or data.draw(st.integers(0, 6)) == 0:
        return data.draw(JUNK)
    copied = copy.copy(plan)
    key = data.draw(st.sampled_from(keys))
    match data.draw(st.sampled_from(["below", "below", "below", "below", "remove", "add"])):
        case "below":
            copied[key] = mutated(plan[key], data)
        case "remove":
            del copied[key]
        case _ if hasattr(copied, "keys"):
            copied[data.draw(st.text() | st.sampled_from(STRANGE_KEYS))] = data.draw(JUNK)
        case _:
            copied.append(data.draw(JUNK))
    return copied


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=200)
@given(PLANS | st.just(SOUND), st.data())
def test_nothing_but_a_plan_error_comes_of_any_mutation(
    authored: dict[str, Any], data: st.DataObject
) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        authored = mutated(authored, data)
    try:
        plan = compile_plan(authored)
    except PlanError as error:
        faults = error.faults
    else:
        faults: list[str] = []
        assert decode(encode(plan), stored.Plan) == plan
    assert all(fault.isprintable() for fault in faults)


def test_the_sound_plan_that_is_mutated_is_sound() -> None:
    assert compile_whole(SOUND)[1] == []
