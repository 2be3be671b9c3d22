"""What is wrong with the contract by which the branches of a fan-out are joined (DESIGN §8)."""

from collections.abc import Iterator

from passdown.broker.plans.at import At
from passdown.broker.plans.check_numbers import duration_faults, spelled
from passdown.broker.plans.durations import LONGEST
from passdown.broker.plans.faults import Fault, show, twice_faults, warning
from passdown.broker.plans.names import LONGEST_NAME, name_faults, slipped
from passdown.contracts.plans import BUILT_IN_MERGES, END, FAIL, MERGE, REDUCE, REDUCER, FanOut


def join_faults(at: At, fan_out: FanOut) -> Iterator[Fault]:
    """Yield what is wrong with the join of a fan-out."""
    yield from _need_faults(at, fan_out)
    yield from _deadline_faults(at, fan_out)
    yield from _merge_faults(at, fan_out)
    yield from twice_faults(at.place("join", "vote_on"), fan_out.vote_on)
    yield from twice_faults(at.place("join", "conflict"), fan_out.conflict)
    if at.is_sure("join"):
        yield from _sense_faults(at, fan_out)
    if not at.is_sure("join") or _may_conflict(fan_out):
        yield from _target_faults(at, "on_conflict", fan_out.on_conflict)
    yield from _target_faults(at, "on_short", fan_out.on_short)


def _need_faults(at: At, fan_out: FanOut) -> Iterator[Fault]:
    need, here = fan_out.need, at.place("join", "need")
    if not fan_out.counts:
        yield Fault(at.place("join", "counts"), "no outcome counts", "leave it out for ['done']")
    yield from twice_faults(at.place("join", "counts"), fan_out.counts)
    if not isinstance(need, int):
        return
    if need < 1:
        yield Fault(here, f"{show(need)} is out of range", "needed is at least 1 branch")
    elif fan_out.branches and at.is_sure("fan_out") and need > len(fan_out.branches):
        yield Fault(
            here,
            f"{show(need)} branches are needed, and {len(fan_out.branches)} are named",
            "need fewer, or 'all'",
        )
    elif not fan_out.branches and at.is_sure("fan_out") and need > fan_out.most >= 1:
        yield Fault(
            here,
            f"{show(need)} branches are needed, and there are {show(fan_out.most)} at most",
            "need fewer, or raise fan_out.most",
        )


def _deadline_faults(at: At, fan_out: FanOut) -> Iterator[Fault]:
    within, whole = fan_out.deadline_seconds, at.stage.deadline_seconds
    if within is None:
        return
    here = at.place("join", "deadline")
    wrong = list(duration_faults(here, within, LONGEST))
    yield from wrong
    if not wrong and whole is not None and within >= whole > 0:
        yield Fault(
            here,
            f"{spelled(within)} is not before the deadline of the stage, {spelled(whole)}",
            "make it shorter: what is short, and the merge, need time, too",
        )


def _merge_faults(at: At, fan_out: FanOut) -> Iterator[Fault]:
    merge, here = fan_out.merge, at.place("join", "merge")
    if merge in BUILT_IN_MERGES:
        return
    function = merge.removeprefix(REDUCE)
    if merge in ("", "reduce", REDUCE):
        yield Fault(
            here, "it does not say how to merge", "name a function, reduce:NAME, or 'collect', or a role"
        )
    elif function != merge:
        yield from _function_faults(here, function)
    elif merge.startswith(REDUCER):
        meant = REDUCE + merge.removeprefix(REDUCER)
        yield Fault(here, f"{show(merge)} is no merge", f"did you mean {show(meant)}?")
    elif (meant := _meant(at, merge)) is not None:
        yield Fault(here, f"{show(merge)} is no merge", f"did you mean {show(meant)}? (a role, rename it)")
    else:
        yield from name_faults(here, "role", merge)


def _function_faults(here: str, name: str) -> Iterator[Fault]:
    most = LONGEST_NAME - len(REDUCER)
    wrong = name_faults(here, "function", name)
    yield from wrong
    if not wrong and len(name) > most:
        yield Fault(
            here, f"{show(name)} is too long for the name of a function", f"at most {most} characters"
        )


def _meant(at: At, merge: str) -> str | None:
    """Return the merge that was probably meant; None where the plan has a role of this name, or none is near."""
    if any(merge == stage.role for stage in at.plan.stages.values()):
        return None
    return next((known for known in BUILT_IN_MERGES if slipped(merge.lower(), known)), None)


def _sense_faults(at: At, fan_out: FanOut) -> Iterator[Fault]:
    """Yield what is said of the join and means nothing there."""
    if fan_out.vote_on and fan_out.merge != "vote":
        yield Fault(at.place("join", "vote_on"), "nobody votes", "set merge = 'vote', or leave it out")
    if fan_out.on_conflict is not None and not _may_conflict(fan_out):
        meant = "did you mean on_short = 'merge'?" if fan_out.on_conflict == MERGE else ""
        yield Fault(
            at.place("join", "on_conflict"),
            "nothing here can conflict",
            meant or "name the fields that must agree as `conflict`, or leave it out",
        )
    if fan_out.need == "veto" and fan_out.counts and list(fan_out.counts) != ["done"]:
        yield Fault(at.place("join", "counts"), "under a veto only what is done counts", "leave it out")
    elif fan_out.counts and "done" not in fan_out.counts:
        if fan_out.merge in ("first", "vote"):
            yield Fault(
                at.place("join", "counts"),
                f"only what is done has an output, and merge = {show(fan_out.merge)} needs one",
                "add 'done'",
            )
        elif fan_out.conflict:
            yield Fault(
                at.place("join", "counts"),
                "only what is done has an output, and `conflict` compares outputs",
                "add 'done'",
            )


def _may_conflict(fan_out: FanOut) -> bool:
    return fan_out.merge == "vote" or bool(fan_out.conflict)


def _target_faults(at: At, field: str, target: str | None) -> Iterator[Fault]:
    here = at.place("join", field)
    if target is None or target == FAIL:
        return
    if target == MERGE and field == "on_short":
        if MERGE in at.plan.stages:
            yield Fault(here, "'merge' goes on with what is there, and is a stage, too", "rename the stage")
    elif target in at.plan.stages:
        return
    elif target == MERGE:
        yield Fault(here, "only on_short may be 'merge'", "name a stage, 'fail', or a queue")
    elif target == END:
        yield Fault(here, "it leads to no end", "name a stage, 'fail', or a queue")
    elif wrong := name_faults(here, "queue", target):
        yield from wrong
    elif near := next((name for name in at.plan.stages if slipped(target, name)), None):
        yield warning(
            here, f"no stage is called {show(target)}, so it is a queue", f"did you mean {show(near)}?"
        )
