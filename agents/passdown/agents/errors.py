"""What an agent or a tool may meet beside the errors of `passdown.contracts.errors`.

::

    PassdownError
    ├── NotDone            the tool knows that nothing was written
    └── EffectUncertain    nobody knows whether it was written
    BaseException
    └── Suspended          a person must see the action first; this attempt is over
"""

from passdown.contracts.errors import PassdownError


class NotDone(PassdownError):
    """Nothing was written. Raise it in a tool that knows so; `ctx.call` raises it where that is on record.

    Raise it only where it is certain: the effect counts as *failed* and may be tried again. A tool that
    cannot tell raises anything else, and the effect is settled first.
    """

    code = "not-done"

    def __init__(self, why: str = "", *, tool: str = "", effect_id: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.tool = tool
        self.effect_id = effect_id

    def __str__(self) -> str:
        return f"{self.tool or 'the tool'} wrote nothing: {self.why or 'no reason was given'}"


class EffectUncertain(PassdownError):
    """An effect may or may not have happened: its tool raised, was cut off, or could not be heard.

    It is on record as *unknown*. Until it is settled the session starts no other effect and a return is
    kept, so the best an agent can do is to end: let this pass, or return what it has.
    """

    code = "effect-uncertain"

    def __init__(self, tool: str, effect_id: str, why: str) -> None:
        super().__init__(tool, effect_id, why)
        self.tool = tool
        self.effect_id = effect_id
        self.why = why

    def __str__(self) -> str:
        return (
            f"nobody knows whether {self.tool} wrote ({self.effect_id}): {self.why};"
            " it will be settled before anything is repeated"
        )


class Suspended(BaseException):
    """A person must see this action first; the claim has ended, and a new attempt follows the decision.

    No ``Exception``, so that an agent's ``except Exception`` does not catch it. Nothing is to be done
    about it: checkpoint before the call what must not be worked out again.
    """

    def __init__(self, tool: str, effect_id: str, ticket_no: int) -> None:
        super().__init__(tool, effect_id, ticket_no)
        self.tool = tool
        self.effect_id = effect_id
        self.ticket_no = ticket_no

    def __str__(self) -> str:
        return f"{self.tool} waits for a person (ticket {self.ticket_no}, {self.effect_id})"
