"""Authored parts → stored parts: sugar resolved, durations in seconds, schemas in place."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from passdown.broker.plans.authored import (
    AnyStage,
    Backoff,
    FanOut,
    FanOutTable,
    Grant,
    HumanStage,
    Join,
    Level,
    Opens,
    Permit,
    Plan,
    Returns,
    Stage,
)
from passdown.broker.plans.durations import Duration, seconds
from passdown.broker.plans.faults import Fault, place, show
from passdown.broker.plans.moves import ON_RESULT, moves_of
from passdown.broker.plans.people import WEEKDAYS, calendar_of, overdue_of, people_of, subject_of
from passdown.broker.plans.schema_source import Direction, SourceProblem, schema_from
from passdown.contracts import plans as stored
from passdown.contracts.schema import Schema

Here = tuple[str | int, ...]


class Lowering:
    """Gathers faults instead of raising them: what cannot be turned is left out, and its place is *unsure*.

    ``renamed`` maps places of the stored form to where the author wrote them.
    """

    def __init__(self, base_dir: Path | None) -> None:
        self._base_dir = base_dir
        self.faults: list[Fault] = []
        self.unsure: set[str] = set()
        self.renamed: dict[str, str] = {}

    def plan(self, plan: Plan) -> stored.Plan:
        """Return the stored form of `plan`, unchecked."""
        self._rename_weekdays(plan)
        return stored.Plan(
            name=plan.name,
            version=plan.version,
            description=plan.description,
            start=plan.start,
            max_steps=plan.max_steps,
            calendars={name: calendar_of(one) for name, one in plan.calendars.items()},
            subjects={name: subject_of(one) for name, one in plan.subjects.items()},
            stages={name: self._any_stage(name, stage) for name, stage in plan.stages.items()},
        )

    def _rename_weekdays(self, plan: Plan) -> None:
        """Note that the spans of days which `weekdays` stands for were written there."""
        for name, calendar in plan.calendars.items():
            here: Here = ("calendars", name)
            for day in (day for day in WEEKDAYS if day not in calendar.hours):
                for n in range(len(calendar.weekdays)):
                    self.renamed[place(*here, "hours", day, n)] = place(*here, "weekdays", n)

    def _any_stage(self, name: str, stage: AnyStage) -> stored.Stage:
        here: Here = ("stages", name)
        moves = moves_of(name, stage.next)
        self.faults += moves.faults
        self.renamed |= moves.renamed
        if moves.faults:
            self.unsure.add(place(*here, "next"))
        own: dict[str, Any] = {}
        match stage:
            case Stage():
                own = {**self._role(here, stage), **self._moves_on(here, stage, moves.on)}
            case HumanStage():
                own = {"queue": stage.queue, **moves.on}
            case FanOut() | FanOutTable():
                own = {**self._fan_out(here, stage), **self._moves_on(here, stage, moves.on)}
        return stored.Stage(
            goal=stage.goal,
            constraints=list(stage.constraints),
            done_when=list(stage.done_when),
            inputs=None if stage.inputs is None else self._schema((*here, "inputs"), stage.inputs, "in"),
            returns=self._returns((*here, "returns"), stage.returns),
            deadline_seconds=_maybe(stage.deadline),
            max_entries=stage.max_entries,
            priority=stage.priority,
            next=moves.next,
            on_stale=stage.on_stale,
            escalation=self._escalation((*here, "escalation"), stage.escalation),
            overdue=overdue_of(stage.overdue),
            people=people_of(stage.people),
            **own,
        )

    def _role(self, here: Here, stage: Stage) -> dict[str, Any]:
        if stage.delivery == "push" and "lease" not in stage.model_fields_set:
            mend = 'say how long it may take, such as lease = "10m"'
            self._fault(
                (*here, "lease"), "nobody renews the lease of a pack that is pushed: it is a deadline", mend
            )
        return {
            "role": stage.role,
            "ask": stage.ask,
            "scopes": None if stage.scopes is None else list(stage.scopes),
            "risk": stage.risk,
            "waived": stage.waived,
            "delivery": stage.delivery,
            "gateway": stage.gateway,
            "permits": [self._permit((*here, "permits", n), one) for n, one in enumerate(stage.permits)],
            "recovery": stage.recovery,
            **self._work(here, stage),
        }

    def _work(self, here: Here, stage: Stage | FanOut | FanOutTable) -> dict[str, Any]:
        """Return what is said of a worker's attempts, be it at a role's stage or at a merge."""
        return {
            "tools": [self._grant((*here, "tools", n), grant) for n, grant in enumerate(stage.tools)],
            "lease_seconds": seconds(stage.lease),
            "time_limit_seconds": _maybe(stage.time_limit),
            "max_attempts": stage.max_attempts,
            "backoff": _backoff(stage.backoff),
        }

    def _fan_out(self, here: Here, stage: FanOut | FanOutTable) -> dict[str, Any]:
        opened: Opens = stage if isinstance(stage, FanOut) else stage.fan_out
        return {
            "fan_out": stored.FanOut(
                branches=self._branches((*here, "fan_out", "branches"), opened),
                each=opened.each,
                stage=opened.stage,
                item=opened.item,
                key=opened.key,
                give=None if opened.give is None else list(opened.give),
                most=opened.most,
                at_once=opened.at_once,
                **_contract(stage.join),
            ),
            **self._work(here, stage),
        }

    def _branches(self, here: Here, opened: Opens) -> dict[str, str]:
        written = opened.branches
        found: dict[str, str] = {}
        for n, (name, start) in enumerate(written.items() if isinstance(written, Mapping) else written):
            if name in found:
                self._fault(
                    (*here, n), f"there is a branch {show(name)} already", "give it a name of its own"
                )
            found.setdefault(name, start)
        return found

    def _moves_on(
        self, here: Here, stage: Stage | FanOut | FanOutTable, on_result: Mapping[str, str]
    ) -> dict[str, str | None]:
        moves: dict[str, str | None] = {field: getattr(stage, field, None) for field in ON_RESULT.values()}
        for field, target in on_result.items():
            if moves[field] is not None:
                self._fault(
                    (*here, field), f"`next` says where {field[3:]!r} leads, too", "say it in one place"
                )
            moves[field] = target
        return moves

    def _grant(self, here: Here, grant: str | Grant) -> stored.Grant:
        if isinstance(grant, str):
            return stored.Grant(tool=grant)
        own: dict[str, Any] = {}
        if grant.approval is not None:
            own["approval_seconds"] = seconds(grant.approval)
            if grant.approve is None:
                self._fault((*here, "approval"), "nobody is asked to approve", "name the queue as `approve`")
        params = self._params(here, grant.params)
        return stored.Grant(
            tool=grant.tool, approve=grant.approve, approvals=grant.approvals, params=params, **own
        )

    def _permit(self, here: Here, permit: Permit) -> stored.Permit:
        return stored.Permit(
            tool=permit.tool,
            queue=permit.queue,
            approvals=permit.approvals,
            approval_seconds=seconds(permit.approval),
            params=self._params(here, permit.params),
        )

    def _params(self, here: Here, params: Mapping[str, object]) -> dict[str, Schema]:
        return {name: self._schema((*here, "params", name), one, "in") for name, one in params.items()}

    def _escalation(self, here: Here, path: Sequence[str | Level]) -> list[stored.Level]:
        return [self._level((*here, n), level) for n, level in enumerate(path)]

    def _level(self, here: Here, level: str | Level) -> stored.Level:
        if isinstance(level, str):
            return stored.Level(queue=level)
        hand_over = (
            None if level.hand_over is None else self._schema((*here, "hand_over"), level.hand_over, "out")
        )
        return stored.Level(queue=level.queue, after_seconds=seconds(level.after), hand_over=hand_over)

    def _returns(self, here: Here, returns: object) -> stored.Returns:
        if not isinstance(returns, Returns):
            return stored.Returns(schema=self._schema(here, returns, "out"))
        return stored.Returns(
            schema=self._schema((*here, "schema"), returns.schema_, "out"),
            evidence=returns.evidence,
            results=list(returns.results),
        )

    def _schema(self, here: Here, source: object, direction: Direction) -> Schema:
        try:
            return schema_from(source, self._base_dir, direction)
        except SourceProblem as problem:
            self._fault(here, problem.problem, problem.mend)
            self.unsure.add(place(*here))
            return True

    def _fault(self, here: Here, problem: str, mend: str = "") -> None:
        self.faults.append(Fault(place(*here), problem, mend))


def _contract(join: Join) -> dict[str, Any]:
    return {
        "need": join.need,
        "counts": list(join.counts),
        "wait_for_people": join.wait_for_people,
        "deadline_seconds": _maybe(join.deadline),
        "merge": join.merge,
        "vote_on": list(join.vote_on),
        "conflict": list(join.conflict),
        "on_conflict": join.on_conflict,
        "on_short": join.on_short,
    }


def _backoff(backoff: Backoff) -> stored.Backoff:
    return stored.Backoff(
        first_seconds=seconds(backoff.first),
        factor=float(backoff.factor),
        most_seconds=seconds(backoff.most),
    )


def _maybe(duration: Duration | None) -> float | None:
    return None if duration is None else seconds(duration)
