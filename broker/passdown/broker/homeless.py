"""What a write came to, where no ledger takes it: after a store lost its last moments, and the claim with the intent.

The claim that is still held records its intent again, then the outcome. One that is over cannot, and its word
would be gone: it is kept in quarantine for a person, who finds the session and the effect in it (DESIGN §6).
"""

import structlog

from passdown.broker.controller import Controller
from passdown.broker.stores.base import Quarantine
from passdown.contracts import commands as cmd
from passdown.contracts.codec import encode
from passdown.contracts.errors import PassdownError

SOURCE = "report"

_log = structlog.get_logger("passdown.gateway")


def keep_report(controller: Controller, session_id: str, body: cmd.Report, refused: PassdownError) -> None:
    """Keep a report of *done* that was refused, unless its claim is held. Raises nothing."""
    if body.phase != "done":
        return
    try:
        state = controller.load(session_id).state
        if state is not None and state.claim is not None and state.claim.claim_id == body.claim_id:
            return
        reason = f"an effect was done, and session {session_id} knows of no such intent: {refused}"
        controller.store.put(
            Quarantine(source=SOURCE, reason=reason, body=encode({"sessionId": session_id, "report": body}))
        )
    except PassdownError as error:
        _log.warning("gateway.report_not_kept", session=session_id, effect=body.effect_id, error=str(error))
