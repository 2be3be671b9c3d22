"""Long texts are shortened as far as the budgets need it, and no further."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.broker.demo.fitting import LONGEST, fit, shorten
from passdown.broker.demo.record import Act, Asked, Called, Run
from passdown.contracts.codec import STATE_BUDGET, encode


def run_of(*acts: Act, request: str = "") -> Run:
    return Run(key="k", task_id="1", trial="0", request=request, acts=list(acts))


def test_texts_that_fit_stay_whole() -> None:
    run = run_of(*[Asked(message=n, text="q" * 700, answer="a" * 700) for n in range(60)])
    assert fit(run) is run


def test_a_text_is_never_longer_than_a_pack_can_bear() -> None:
    fitted = fit(run_of(Asked(message=0, text="q" * 99_999, answer="a" * 99_999), request="r" * 99_999))
    assert fitted is not None
    (asked,) = fitted.acts
    assert isinstance(asked, Asked)
    for text in (asked.text, asked.answer or "", fitted.request):
        assert len(encode(text)) <= LONGEST
        assert text.endswith("… (99999 characters)")


def test_many_long_texts_share_the_room() -> None:
    asked = [Asked(message=n, text="\u0000" * 9_000, answer="é" * 9_000) for n in range(80)]
    reads = [Called(message=n, tool="t", args={"n": n}, result="r" * 4_000) for n in range(40)]
    fitted = fit(run_of(*asked, *reads))
    assert fitted is not None
    texts = sum(len(encode(act)) for act in fitted.acts if isinstance(act, Asked))
    assert texts + 32 * 4_000 < STATE_BUDGET


def test_results_and_arguments_are_never_touched() -> None:
    call = Called(message=0, tool="t", args={"a": "x" * 20_000}, result="r" * 300_000)
    fitted = fit(run_of(call, request="r" * 99_999))
    assert fitted is not None
    assert fitted.acts == [call]


def test_what_asks_beyond_all_bounds_does_not_fit() -> None:
    assert fit(run_of(*[Asked(message=n, text="?" * 500) for n in range(1000)])) is None


@pytest.mark.parametrize("limit", [64, 1000])
@given(text=st.text(max_size=3000))
def test_a_shortened_text_has_at_most_its_limit(limit: int, text: str) -> None:
    assert len(encode(shorten(text, limit))) <= limit
