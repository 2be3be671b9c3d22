"""Three reviewers, the function that counts their verdicts, and the desk. Rules stand where models would."""

from typing import Any

from passdown.agents import BranchResult, Done, Pack, SyncContext, agent, reducer

Said = dict[str, Any]
_YES = ("yes", "confirm", "go ahead", "proceed", "please do")


def verdict(value: str, because: str, source: str) -> Done:
    """Return a verdict with its evidence."""
    return Done({"verdict": value, "because": because}, evidence=[{"claim": because, "source": source}])


def said(pack: Pack) -> list[Said]:
    """Return the conversation of this branch: who said or called what, in order."""
    return pack.inputs["item"]["said"]


@agent("consent-reviewer")
def consent(pack: Pack, _: SyncContext) -> Done:
    """Judge whether each write came after a yes of the customer."""
    agreed = wrote = False
    for place, one in enumerate(said(pack)):
        if one["who"] == "customer":
            agreed = any(word in one["text"].lower() for word in _YES)
        elif one["who"] == "write":
            wrote = True
            if not agreed:
                return verdict("bad", f"{one['tool']} ran without a yes", f"message {place}")
    if not wrote:
        return verdict("unclear", "nothing was written", "the whole conversation")
    return verdict("good", "each write came after a yes", "the whole conversation")


@agent("outcome-reviewer")
def outcome(pack: Pack, _: SyncContext) -> Done:
    """Judge whether the last try of each write succeeded."""
    last: dict[str, tuple[int, bool]] = {}
    handed_on = False
    for place, one in enumerate(said(pack)):
        if one["who"] == "write":
            last[one["tool"]] = (place, one["ok"])
        handed_on = handed_on or one["who"] == "hand-over"
    failed = [tool for tool, (_, ok) in last.items() if not ok]
    if failed:
        place = last[failed[0]][0]
        return verdict("bad", f"{failed[0]} failed in the end", f"message {place}")
    if handed_on:
        return verdict("unclear", "it was handed to a person", "the end of the conversation")
    return verdict("good", "nothing that was tried failed", "the whole conversation")


@agent("customer-reviewer")
def customer(pack: Pack, _: SyncContext) -> Done:
    """Judge by the customer's last words."""
    words = [one["text"] for one in said(pack) if one["who"] == "customer" and one["text"]]
    last = words[-1].lower() if words else ""
    if "thank" in last or "appreciate" in last:
        return verdict("good", "the customer thanked", "the last message")
    if any(word in last for word in ("not", "never", "unfortunately", "why")):
        return verdict("bad", "the customer left unhappy", "the last message")
    return verdict("unclear", "the customer left without a word on it", "the last message")


@reducer("tally")
def tally(so_far: Said | None, branch: BranchResult) -> Said:
    """Count the verdicts, one conversation after the other."""
    counted = so_far or {"verdicts": {}, "bad": []}
    found = (branch.output or {}).get("verdict", branch.outcome)
    verdicts = counted["verdicts"]
    verdicts[found] = verdicts.get(found, 0) + 1
    if found == "bad":
        counted["bad"].append(branch.branch)
    return counted


@agent("desk")
def report(pack: Pack, _: SyncContext) -> Done:
    """Say it in a sentence."""
    verdicts = ", ".join(f"{count} {name}" for name, count in sorted(pack.inputs["verdicts"].items()))
    return Done({"report": f"{verdicts}; to look at: {', '.join(pack.inputs['bad']) or 'none'}"})
