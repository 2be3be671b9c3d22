import pytest

from passdown.broker.plans.names import name_faults, slipped


@pytest.mark.parametrize("name", ["a", "pay", "refund-approvers", "draft.review_2", "x" * 100])
def test_names_are_lower_case_words(name: str) -> None:
    assert name_faults("here", "stage", name) == []


@pytest.mark.parametrize(
    "name", ["", "Pay", "2nd", "pay-", "-pay", "a b", "a--b", "naïve", "a\n", "x" * 101, "a/b", "a@1"]
)
def test_anything_else_is_no_name(name: str) -> None:
    assert [fault.place for fault in name_faults("here", "stage", name)] == ["here"]


@pytest.mark.parametrize("name", ["refunds.create", "mcp__server__tool", "fs/read:file", "readFile"])
def test_tools_bring_names_from_elsewhere(name: str) -> None:
    assert name_faults("here", "tool", name) == []


@pytest.mark.parametrize(("kind", "name"), [("stage", "end"), ("stage", "fail"), ("queue", "producer")])
def test_reserved_names_say_what_they_mean(kind: str, name: str) -> None:
    assert "is reserved" in str(name_faults("here", kind, name)[0])
    assert name_faults("here", "role", name) == []


def test_the_sentence() -> None:
    assert [str(fault) for fault in name_faults("name", "plan", "My Plan")] == [
        (
            "name: 'My Plan' is no name for a plan;"
            " use lower-case words joined by - _ or . (at most 100 characters, a letter first)"
        )
    ]


@pytest.mark.parametrize("written", ["vot", "votes", "vute", "ovte", "evote", "voet"])
def test_a_name_is_taken_for_another_but_for_one_letter(written: str) -> None:
    assert slipped(written, "vote")


@pytest.mark.parametrize("written", ["vote", "vo", "voters", "etov", "", "veto"])
def test_what_differs_by_more_or_not_at_all_is_another_name(written: str) -> None:
    assert not slipped(written, "vote")
    assert not slipped("pax", "pay")
