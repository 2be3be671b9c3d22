from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from passdown.broker.plans.graph import Graph, graph_of
from passdown.contracts.plans import FanOut, Next, Plan, Stage


def plan_of(**targets: list[str]) -> Plan:
    """Return a plan whose stages move to `targets`, as the agent suggests."""
    stages = {name: Stage(role="r", next=Next(suggest=leads)) for name, leads in targets.items()}
    return Plan(name="p", start=next(iter(targets)), stages=stages)


def test_distances_count_the_stages_that_are_entered() -> None:
    graph = graph_of(plan_of(a=["b", "c"], b=["d"], c=["d"], d=["end"], e=["a"]))
    assert graph.distances("a") == {"a": 1, "b": 2, "c": 2, "d": 3}
    assert graph.reachable("nowhere") == set()


def test_stages_that_may_end_and_groups_that_go_round() -> None:
    graph = graph_of(plan_of(a=["b"], b=["c", "a"], c=["end"], d=["e"], e=["d"], f=["f", "end"]))
    assert graph.may_end == {"a", "b", "c", "f"}
    assert graph.cycles == [["a", "b"], ["d", "e"], ["f"]]
    assert graph.goes_round("b", "a")
    assert graph.goes_round("f", "f")
    assert not graph.goes_round("b", "c")
    assert not graph.goes_round("a", "d")


def test_moves_to_nowhere_are_left_out_and_no_next_is_an_end() -> None:
    graph = graph_of(plan_of(a=["nowhere"], b=[]))
    assert graph.follows == {"a": [], "b": []}
    assert graph.ends == {"b"}
    assert graph_of(plan_of(a=["nowhere"]), may_end=["a"]).ends == {"a"}


def test_stages_stand_in_the_order_in_which_they_are_passed() -> None:
    graph = graph_of(
        plan_of(start=["left", "right"], last=["end"], right=["last"], left=["last", "start"], lost=[])
    )
    assert graph.in_order("start") == ["start", "left", "right", "last", "lost"]
    assert graph.in_order("nowhere") == ["start", "last", "right", "left", "lost"]


def test_branches_are_reached_but_are_no_moves() -> None:
    stages = plan_of(a=["d"], b=["c"], c=[], d=["end"], e=["a"]).stages
    opened = {**stages, "a": replace(stages["a"], fan_out=FanOut(branches={"x": "b", "y": "gone"}))}
    graph = graph_of(Plan(name="p", start="a", stages=opened))
    assert graph.opens == {"a": ["b"]}
    assert graph.reachable("a") == {"a", "b", "c", "d"}
    assert graph.passed(["a"]) == {"a", "d"}
    assert graph.distances("a") == {"a": 1, "d": 2}
    assert graph.in_order("a") == ["a", "b", "c", "d", "e"]


def test_how_deep_fan_outs_nest() -> None:
    follows: dict[str, list[str]] = {"a": [], "b": ["c"], "c": [], "d": ["a"], "e": []}
    graph = Graph(follows, frozenset(), {"a": ["b"], "c": ["e"], "d": ["e"]})
    assert graph.inner == {"a": {"c"}, "c": set(), "d": set()}
    assert graph.nested_deeper(0) == {"a", "c", "d"}
    assert graph.nested_deeper(1) == {"c"}
    assert graph.nested_deeper(2) == set()
    assert Graph(follows, frozenset(), {"a": ["d"]}).nested_deeper(100) == {"a"}


def test_a_join_that_is_short_moves_to_a_stage_and_to_no_queue() -> None:
    fan_out = FanOut(branches={"x": "b"}, on_short="b", on_conflict="people")
    stages = {"a": Stage(fan_out=fan_out, next=Next(to="end")), "b": Stage(role="r")}
    assert graph_of(Plan(name="p", start="a", stages=stages)).follows == {"a": ["b"], "b": []}


def test_a_long_plan_is_no_problem() -> None:
    names = [f"s{n}" for n in range(20_000)]
    graph = graph_of(
        plan_of(**{name: [following] for name, following in zip(names, [*names[1:], names[0]], strict=True)})
    )
    assert len(graph.cycles[0]) == len(graph.in_order("s0")) == len(graph.distances("s0")) == 20_000


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef")), min_size=1))
def test_two_stages_are_in_one_group_where_each_leads_to_the_other(targets: dict[str, list[str]]) -> None:
    known = {name: [one for one in leads if one in targets] for name, leads in targets.items()}
    graph = Graph(known, frozenset())
    beyond = {name: set[str]().union(*(graph.reachable(one) for one in known[name])) for name in known}
    for one in known:
        assert (one in graph.cycle_of) == (one in beyond[one])
        for other in known:
            together = one in beyond[other] and other in beyond[one]
            assert (one in graph.cycle_of and graph.cycle_of[one] == graph.cycle_of.get(other)) == together
