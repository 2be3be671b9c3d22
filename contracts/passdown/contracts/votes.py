"""What a vote of branches is about (DESIGN §8): the broker and the merge must count alike, so both count by this."""

from collections.abc import Mapping, Sequence
from typing import Any

from passdown.contracts.codec import digest, encode

#: A value up to so many bytes of canonical JSON is told apart by that, a longer one by its digest.
SHOWN_VALUE = 120


def comparable(value: Any) -> str:
    """Return a value as it is compared and shown: its canonical JSON, or a digest where that is long."""
    raw = encode(value)
    return raw.decode() if len(raw) <= SHOWN_VALUE else f"sha256:{digest(raw)}"


def ballot(output: Mapping[str, Any] | None, vote_on: Sequence[str]) -> str:
    """Return what an output votes for: the values of the fields `vote_on`, or the whole of it.

    Empty where there is no output: who gives none does not vote, and is no vote for null either.
    """
    if output is None:
        return ""
    return comparable([output.get(name) for name in vote_on] if vote_on else output)


def majority(votes: Mapping[str, int]) -> str:
    """Return the ballot with more than half of the votes (ballot → how many); empty where none has."""
    most = max(votes, key=lambda one: votes[one], default="")
    return most if most and votes[most] * 2 > sum(votes.values()) else ""
