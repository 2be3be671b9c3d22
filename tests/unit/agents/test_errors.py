import pytest

from passdown.agents import EffectUncertain, NotDone, Suspended
from passdown.contracts.errors import PassdownError

TEXTS = [
    (NotDone(), "the tool wrote nothing: no reason was given"),
    (NotDone("card refused", tool="pay", effect_id="s.e-1"), "pay wrote nothing: card refused"),
    (
        EffectUncertain("pay", "s.e-1", "KeyError: 'id'"),
        "nobody knows whether pay wrote (s.e-1): KeyError: 'id'; it will be settled before anything is repeated",
    ),
    (Suspended("pay", "s.e-1", 3), "pay waits for a person (ticket 3, s.e-1)"),
]


@pytest.mark.parametrize(("error", "text"), TEXTS)
def test_each_error_says_what_is(error: BaseException, text: str):
    assert str(error) == text


def test_suspended_passes_an_except_exception():
    assert not issubclass(Suspended, Exception)


def test_codes_are_stable():
    assert (NotDone.code, EffectUncertain.code) == ("not-done", "effect-uncertain")
    assert issubclass(NotDone, PassdownError)
