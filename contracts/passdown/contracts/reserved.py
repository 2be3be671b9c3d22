"""Events of visits: named and fixed here, written by no command of this version."""

from passdown.contracts.codec import Record


class PenMoved(Record, frozen=True, kw_only=True, tag_field="type", tag="PenMoved"):
    """Another visit holds the task's pen; lower numbers are refused from here on."""

    pen: int
    visit_id: str


ReservedEvent = PenMoved
