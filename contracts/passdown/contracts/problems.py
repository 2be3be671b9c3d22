"""An error as it travels: a problem object of RFC 9457, and back."""

from typing import Any, cast

from passdown.contracts import errors
from passdown.contracts.codec import Wire, clean_text
from passdown.contracts.errors import ContractError, PassdownError

#: Error → the names of its facts, in the order in which it takes them; and its HTTP status.
_KINDS: dict[type[PassdownError], tuple[tuple[str, ...], int]] = {
    ContractError: (("what", "problem", "pointer"), 422),
    errors.BudgetExceeded: (("what", "size", "budget", "largest"), 413),
    errors.PlanError: (("plan", "faults"), 422),
    errors.Conflict: (("what", "winner", "decided"), 409),
    errors.Fenced: (("given", "current", "why"), 409),
    errors.Denied: (("who", "what", "why"), 403),
    errors.Unauthenticated: (("what", "why"), 401),
    errors.NotFound: (("kind", "name", "hint"), 404),
    errors.Unavailable: (("what", "why"), 503),
    errors.QueueFull: (("role", "waiting", "limit"), 503),
}
_BY_CODE = {kind.code: kind for kind in _KINDS}


class Problem(Wire, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """An error over HTTP. Look at ``code``, which is stable; ``facts`` are what the error knows, by name."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    facts: dict[str, Any] = {}


def problem_of(error: PassdownError) -> Problem:
    """Return `error` as a problem object."""
    names, status = _KINDS.get(type(error), ((), 500))
    return Problem(
        type=f"urn:passdown:error:{error.code}",
        title=(type(error).__doc__ or type(error).__name__).partition(". ")[0].strip().removesuffix("."),
        status=status,
        detail=clean_text(str(error)),
        code=error.code,
        facts={name: safe(getattr(error, name)) for name in names},
    )


def error_of(problem: Problem) -> PassdownError:
    """Return the error that a problem object tells of; one that is not known here is told by its detail."""
    kind = _BY_CODE.get(problem.code)
    if kind is None or set(problem.facts) != set(_KINDS[kind][0]):
        return PassdownError(f"{problem.code}: {problem.detail}")
    return kind(*(problem.facts[name] for name in _KINDS[kind][0]))


def error_from(code: str, facts: list[Any]) -> PassdownError:
    """Return the error of this code with these facts, in the order in which it takes them."""
    kind = _BY_CODE.get(code)
    if kind is None or len(facts) > len(_KINDS[kind][0]):
        raise ContractError(
            "error", f"there is no error {clean_text(code, 60)!r} with {len(facts)} facts here"
        )
    try:
        return kind(*facts)
    except TypeError as error:
        raise ContractError("error", f"{code!r} does not take {len(facts)} facts") from error


def safe(fact: Any) -> Any:
    """Return a fact of an error fit for storing: a text may be anything, and must not fail the failure path."""
    if isinstance(fact, str):
        return clean_text(fact)
    if isinstance(fact, list):
        return [safe(one) for one in cast("list[Any]", fact)]
    if isinstance(fact, dict):
        return {clean_text(name): safe(one) for name, one in cast("dict[str, Any]", fact).items()}
    return fact
