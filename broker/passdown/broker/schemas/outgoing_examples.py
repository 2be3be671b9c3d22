"""An example of each CloudEvent."""

from typing import Any

from passdown.broker.schemas import examples as ex
from passdown.contracts.outgoing import Change, Outcome, OutcomeEvent, Outgoing, StatusEvent

_HEAD: dict[str, Any] = {
    "specversion": "1.0",
    "source": "/passdown",
    "subject": ex.SESSION,
    "datacontenttype": "application/json",
    "taskid": ex.TASK,
    "traceparent": ex.TRACE,
}
_SESSION: dict[str, Any] = {
    "task_id": ex.TASK,
    "task_name": ex.TASK_NAME,
    "key": ex.KEY,
    "plan": str(ex.PLAN_REF),
}

OUTGOING: list[Outgoing] = [
    StatusEvent(
        **_HEAD,
        id=f"{ex.SESSION}/10",
        time="2026-01-01T00:00:10.000Z",
        data=Change(**_SESSION, status="waiting-human", before="running", stage="pay", step=2),
    ),
    OutcomeEvent(
        **_HEAD,
        id=f"{ex.SESSION}/24",
        time="2026-01-01T00:03:20.500Z",
        data=Outcome(
            **_SESSION,
            status="done",
            before="running",
            stage="tell",
            step=3,
            output={"text": "The refund of order 4711 is on its way."},
        ),
    ),
]
