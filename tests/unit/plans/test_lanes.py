from passdown.broker.plans.lanes import Row, draw


def drawn(*rows: Row, column: int = 1, width: int = 80) -> str:
    return "\n".join(draw(list(rows), column, width))


def test_a_lane_leads_from_a_row_to_its_target() -> None:
    assert drawn(
        Row("first", name="a", head="a"),
        Row("go", leads="b"),
        Row("second", name="b", head="b"),
    ) == (
        "     a  first\n"
        "┌─────  go\n"
        "└──▶ b  second"
    )  # fmt: skip


def test_all_lines_to_one_target_share_a_lane_and_nothing_is_drawn_to_where_none_leads() -> None:
    assert drawn(
        Row("go", leads="b"),
        Row("lone", name="c", head="c"),
        Row("second", name="b", head="b"),
        Row("back", leads="b"),
    ) == (
        "┌─────  go\n"
        "│    c  lone\n"
        "├──▶ b  second\n"
        "└─────  back"
    )  # fmt: skip


def test_short_lanes_stand_inside_and_what_crosses_passes_beneath() -> None:
    assert drawn(
        Row("go to b", leads="b"),
        Row("go to c", leads="c"),
        Row("", name="b", head="b"),
        Row("again", leads="b"),
        Row("", name="c", head="c"),
    ) == (
        "  ┌─────  go to b\n"
        "┌─│─────  go to c\n"
        "│ ├──▶ b\n"
        "│ └─────  again\n"
        "└────▶ c"
    )  # fmt: skip


def test_lanes_that_do_not_meet_share_a_column() -> None:
    assert drawn(
        Row("1", leads="b"),
        Row("", name="b", head="b"),
        Row("2", leads="c"),
        Row("", name="c", head="c"),
    ) == (
        "┌─────  1\n"
        "└──▶ b\n"
        "┌─────  2\n"
        "└──▶ c"
    )  # fmt: skip


def test_a_mark_takes_the_place_of_the_arrow() -> None:
    assert (
        drawn(Row("go", name="a", head="a", mark="●"), Row("back", leads="a")) == "┌──● a  go\n└─────  back"
    )


def test_wrapped_text_hangs_below_its_label() -> None:
    assert drawn(Row("one two three four five six seven", label="tools"), width=36) == (
        "      tools  one two three four five\n"
        "             six seven"
    )  # fmt: skip


def test_a_target_without_a_row_of_its_own_is_no_harm() -> None:
    assert drawn(Row("go", leads="nowhere")) == "──────  go"
