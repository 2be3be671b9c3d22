"""What is said to whoever asks for a session that is not there, or that is not the one they mean."""

from passdown.contracts import commands as cmd
from passdown.contracts.errors import Conflict, NotFound
from passdown.contracts.plans import PlanRef


def no_session(session_id: str, removed: str = "") -> NotFound:
    """Return the error for a session that is not there; ``removed`` is how it ended, where it was removed since."""
    hint = f"it ended as {removed}, and was removed under the retention rules" if removed else ""
    return NotFound("session", session_id, hint)


def another_content(session_id: str, body: cmd.Body, plan: PlanRef | None, removed: str = "") -> Conflict:
    """Return the error for an act that is recorded with another content; ``plan`` is the session's, if it is there."""
    if not isinstance(body, cmd.Submit):
        return Conflict(f"this {type(body).__name__.lower()} was made already, with another content")
    if plan is not None:
        whose = f"belongs to session {session_id} of {plan}, which was submitted with another content"
    else:
        whose = f"belonged to session {session_id}, which was submitted with another content, and ended as {removed}"
    return Conflict(f"the key {body.key!r} {whose}")
