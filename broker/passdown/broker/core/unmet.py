"""What people approved and nothing came of (DESIGN §6): before its step is left, they are told, and decide.

The decision and the effect are two records; that they differ must not go unseen. Where a person decides anyway how the
session goes on, the brief says it, and nobody is asked beside.
"""

from passdown.broker.core.draft import Draft
from passdown.broker.core.parts import Effect
from passdown.broker.core.tickets import first_queue, open_ticket


def ask_about_unmet(draft: Draft) -> bool:
    """Ask about the first write of this step that was approved and not done; of several one after the other.

    As many people as approved it are needed to approve it once more. Each yes is asked about until somebody says no to
    it, or nobody decides in time: then it is void (`ledger`), so that no rule can come back to it.
    """
    for effect in draft.state.effects:
        approval, became = effect.approval, _became(draft, effect)
        if approval is None or not became:
            continue
        open_ticket(
            draft,
            "unmet",
            f"{effect.tool} was approved by {approval.by}, and {became}",
            ["approve", "deny", "edit", "send-back", "cancel"],
            about=effect.effect_id,
            action=approval.action,
            queue=approval.queue or first_queue(draft.stage),
            approvals=1 + len(approval.also),
        )
        return True
    return False


def _became(draft: Draft, effect: Effect) -> str:
    """Return what became of an approval of this step, where nothing did; a yes that is too old has lapsed by itself."""
    approval = effect.approval
    if approval is None or effect.step != draft.state.step:
        return ""
    match effect.status:
        case "proposed" | "failed" | "not-done" if not approval.spent:
            return "not run" if approval.valid_until >= draft.at else ""
        case "failed":
            return f"then failed: {effect.error}"
        case "not-done":
            return "then turned out not to have happened"
        case _:
            return ""
