import itertools
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.settings import ROWS, Settings, env_name, load, shown, unknown_variables
from passdown.broker.settings_page import settings_page
from passdown.contracts.errors import ContractError

ROOT = Path(__file__).parents[2]
EXAMPLES: dict[str, str] = {
    "store": "sqlite:///x.db",
    "transport": "memory://",
    "as": "user:ann",
    "claim_by": "3s",
    "concurrency": "4",
    "limits.roles": "cashier=5,desk=0",
    "limits.task": "2",
    "tick_every": "250ms",
    "store_patience": "1m",
    "modules": "shop.agents, agents.py",
    "plans": "a.toml,b.toml",
    "log_level": "debug",
    "log_format": "json",
    "pool": "solo",
    "worker_grace": "20s",
    "roles": "desk,cashier",
    "merge": "false",
    "limits.push": "5",
    "accept_effect_loss": "true",
    "events": "changes",
    "events_source": "/shop",
    "retention": "30d",
    "archive": "none",
    "keep_keys": "2h",
    "queue_limit": "50",
    "health_file": "health.json",
    "token": "pdt_abc",
    "token_file": "token",
    "access": "tokens",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problem(
    flags: dict[str, Any] | None = None, environ: dict[str, str] | None = None, config: str | None = None
) -> str:
    with pytest.raises(ContractError) as caught:
        load(flags, environ=environ or {}, config=config)
    return str(caught.value)


def test_the_page_in_docs_is_the_table_of_settings() -> None:
    """Fault of others: a setting that nobody documented. `python -c "…"` below writes the page anew."""
    write = "from passdown.broker.settings_page import settings_page as s; open('docs/settings.md', 'w').write(s())"
    assert (ROOT / "docs/settings.md").read_text(encoding="utf-8") == settings_page(), f'python -c "{write}"'


def test_each_setting_has_a_name_a_type_and_a_meaning_and_stands_in_the_page() -> None:
    assert set(ROWS) == set(EXAMPLES)
    for row in ROWS.values():
        assert row.kind
        assert row.meaning.endswith(".")
        assert f"| `{row.name}` | `{row.env}` |" in settings_page()


def test_without_anything_said_each_setting_is_its_default() -> None:
    loaded = load({}, environ={})
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_setting_can_be_a_flag_or_a_variable(name: str) -> None:
    by_flag = load({name: EXAMPLES[name]}, environ={})
    by_variable = load({}, environ={env_name(name): EXAMPLES[name]})
    assert by_flag.settings == by_variable.settings != Settings()
    assert by_flag.origins[name] == "flag"
    assert by_variable.origins[name] == env_name(name)


def test_a_flag_goes_before_a_variable_before_the_file(folder: Path) -> None:
    (folder / "passdown.toml").write_text('claim_by = "1s"\ntick_every = "2s"\nstore_patience = "3s"\n')
    environ = {"PASSDOWN_CLAIM_BY": "4s", "PASSDOWN_TICK_EVERY": "5s"}
    settings, origins = load({"claim_by": "6s"}, environ=environ)
    assert (settings.claim_by_s, settings.tick_every_s, settings.store_patience_s) == (6.0, 5.0, 3.0)
    assert [origins[name] for name in ("claim_by", "tick_every", "store_patience", "log_level")] == [
        "flag",
        "PASSDOWN_TICK_EVERY",
        "passdown.toml",
        "default",
    ]


def test_the_file_says_everything_in_its_own_types(folder: Path) -> None:
    (folder / "passdown.toml").write_text(
        'as = "user:ann"\nconcurrency = 4\nmodules = ["shop.agents", "agents.py"]\nclaim_by = "1m30s"\n'
        "[limits]\ntask = 2\n[limits.roles]\ncashier = 5\n"
    )
    settings = load({}, environ={}).settings
    assert settings.principal == "user:ann"
    assert settings.concurrency == 4
    assert settings.modules == ["shop.agents", "agents.py"]
    assert (settings.claim_by_s, settings.claim_by_ms) == (90.0, 90_000)
    assert (settings.role_limits, settings.task_limit) == ({"cashier": 5}, 2)


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load({}, environ=dict.fromkeys((row.env for row in ROWS.values()), "")).settings == Settings()


def test_paths_in_a_file_elsewhere_are_relative_to_its_folder(folder: Path) -> None:
    there = folder / "etc"
    there.mkdir()
    (there / "p.toml").write_text(
        'store = "sqlite:///x.db"\ntransport = "filesystem://bells"\nplans = ["a.toml", "/b.toml"]\n'
        'modules = ["agents.py", "shop.agents"]\n'
    )
    settings = load({}, environ={}, config=there / "p.toml").settings
    assert settings.store == f"sqlite:///{there}/x.db"
    assert settings.transport == f"filesystem://{there}/bells"
    assert settings.plans == [f"{there}/a.toml", "/b.toml"]
    assert settings.modules == [f"{there}/agents.py", "shop.agents"]
    (there / "p.toml").write_text('store = "sqlite:///:memory:"\ntransport = "memory://"\n')
    settings = load({}, environ={}, config=there / "p.toml").settings
    assert (settings.store, settings.transport) == ("sqlite:///:memory:", "memory://")


ODD = [
    "0",
    "-1",
    "none",
    "null",
    "",
    "9" * 30,
    "1e9",
    "nan",
    "inf",
    "10",
    "1.5",
    "0s",
    "-5s",
    "99999999999d",
    "\uff15",
]
MEANT = {
    ("limits.task", "0"): 0,
    ("limits.task", "10"): 10,
    ("concurrency", "10"): 10,
    ("limits.push", "10"): 10,
    ("queue_limit", "0"): 0,
    ("queue_limit", "10"): 10,
    ("retention", "0s"): 0.0,
}
#: How each kind of setting is held against values that mean "nothing", "never" or "no end" elsewhere.
COUNTED = ("number", "duration")
WORDS = ("word", "true or false", "kind:name", "role = number")
FREE = ("secret", "address", "list", "name", "folder", "path", "URI reference")


@pytest.mark.parametrize(
    ("name", "value"),
    list(itertools.product([row.name for row in ROWS.values() if row.kind in COUNTED], ODD)),
)
def test_zero_negative_missing_and_huge_values_mean_what_is_documented_or_are_refused(
    name: str, value: str
) -> None:
    """Fault #46: zero meant "expire now", not "never"."""
    if (name, value) in MEANT:
        assert getattr(load({name: value}, environ={}).settings, ROWS[name].field) == MEANT[name, value]
    else:
        said = problem({name: value})
        assert said.startswith(f"setting {name} (flag) does not fit its contract: expected ")
        assert len(said) < 200


@pytest.mark.parametrize(
    ("name", "value"),
    list(
        itertools.product(
            [row.name for row in ROWS.values() if row.kind in WORDS], ["0", "-1", "none", "9" * 30]
        )
    ),
)
def test_words_that_mean_nothing_or_no_end_elsewhere_are_refused_here(name: str, value: str) -> None:
    assert problem({name: value}).startswith(f"setting {name} (flag) does not fit its contract: expected ")


def test_no_kind_of_setting_was_left_out_above() -> None:
    """What is free text or a list has no limit to get wrong."""
    assert {row.kind for row in ROWS.values()} <= {*COUNTED, *WORDS, *FREE}


@pytest.mark.parametrize(("value", "meant"), [("true", True), ("false", False), (True, True), (False, False)])
def test_a_switch_is_true_or_false_and_nothing_else(value: Any, meant: bool) -> None:
    assert load({"accept_effect_loss": value}, environ={}).settings.accept_effect_loss is meant
    for other in ("yes", "1", "True", 1, None):
        assert "expected true or false" in problem({"accept_effect_loss": other})


@pytest.mark.parametrize(
    "value", ["cashier=-1", "cashier", "=5", "cashier=none", "cashier=5,", "a b=1", "x=1.5"]
)
def test_a_limit_of_a_role_that_is_none_is_refused(value: str) -> None:
    assert "setting limits.roles (PASSDOWN_LIMITS_ROLES)" in problem(environ={"PASSDOWN_LIMITS_ROLES": value})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'stoer = "x"',
            "passdown.toml does not fit its contract: there is no setting 'stoer'; did you mean 'store'?",
        ),
        ("[limits]\nrole = {}", "there is no setting 'limits.role'; did you mean 'limits.roles'?"),
        ("limits = 5", "there is no setting 'limits'"),
        (
            "[limits]\nroles = 5",
            "setting limits.roles (passdown.toml) does not fit its contract: expected a table",
        ),
        (
            "claim_by = 10",
            "setting claim_by (passdown.toml) does not fit its contract: expected a duration with its unit",
        ),
        ("claim_by = 10.0", "expected a duration with its unit from 100ms to 1h, got 10.0"),
        ("concurrency = true", "expected a whole number from 1 to 1000, got true"),
        ("modules = [1]", "expected a list of names, none of them empty, got 1"),
        ('modules = "agents.py,"', "expected a list of names, none of them empty, got ''"),
        (
            'as = "ann"',
            "setting as (passdown.toml) does not fit its contract: expected kind:name, such as user:ann, got 'ann'",
        ),
        ("as = 5", "expected kind:name, such as user:ann, got 5"),
        ("store = 5", "setting store (passdown.toml) does not fit its contract: expected text, got 5"),
        ('store = ""', "expected an address such as sqlite:///passdown.db, got ''"),
        ('store = "a\\u001b[31m"', "expected text, got "),
        ('log_level = "loud"', "expected one of debug, info, warning, error, got 'loud'"),
        ('events = "amq.topic"', "'amq.topic' belongs to Passdown or its transport"),
        ('events = "a b"', "expected 1 to 100 letters, digits"),
        ("events = 5", "setting events (passdown.toml) does not fit its contract: expected text, got 5"),
        ('events_source = ""', "expected a URI reference, such as /passdown"),
        ('events_source = "a b"', "expected a URI reference, such as /passdown"),
        ("x = ", "passdown.toml does not fit its contract: not TOML: "),
        ("a = " + "[" * 5000, "not TOML"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_what_was_expected(folder: Path, text: str, said: str) -> None:
    (folder / "passdown.toml").write_text(text)
    assert said in problem()


def test_a_file_that_cannot_be_read_is_refused(folder: Path) -> None:
    (folder / "passdown.toml").write_bytes(b"\xff\xfe")
    assert "not TOML" in problem()
    (folder / "passdown.toml").unlink()
    (folder / "passdown.toml").mkdir()
    assert "cannot be read: Is a directory" in problem()
    assert "cannot be read: No such file" in problem(config="gone.toml")


def test_all_that_is_wrong_is_said_at_once() -> None:
    said = problem({"concurrency": "0", "claim_by": "1"})
    assert "setting claim_by (flag)" in said
    assert "(and concurrency: expected a whole number" in said


def test_a_flag_that_is_no_setting_is_refused() -> None:
    assert "there is no setting 'stoer'; did you mean 'store'?" in problem({"stoer": "x"})


def test_a_variable_that_looks_like_a_setting_and_is_none_is_told_its_nearest() -> None:
    assert unknown_variables({"PASSDOWN_STOER": "x", "PASSDOWN_STORE": "x", "HOME": "/"}) == {
        "PASSDOWN_STOER": "did you mean 'PASSDOWN_STORE'?"
    }


def test_durations_are_timedeltas_in_python_and_settings_do_not_change() -> None:
    settings = Settings(claim_by_s=timedelta(seconds=3), principal="user:ann")  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert settings.claim_by_s == 3.0
    with pytest.raises(ValueError, match="frozen"):
        settings.concurrency = 3  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (10.0, "10s"),
        (0.25, "250ms"),
        (5, "5"),
        ("", ""),
        ([], ""),
        (["a", "b"], "a, b"),
        ({"a": 1}, "a = 1"),
    ],
)
def test_values_are_shown_as_the_file_would_write_them(value: Any, text: str) -> None:
    assert shown(value) == text
