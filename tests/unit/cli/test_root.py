"""The edge: help, names of commands, shared flags, and how each error ends."""

import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest

from passdown.broker.cli import root as edge
from passdown.broker.cli.frame import GLOBALS
from passdown.broker.cli.root import COMMANDS, root, run
from passdown.contracts import errors
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk

NAMES = [name for section in COMMANDS.values() for name in section]
PASSDOWN = str(Path(sys.executable).with_name("passdown"))


def command(name: str) -> click.Command:
    found = root.get_command(click.Context(root), name)
    assert found is not None
    return found


def leaves() -> list[click.Command]:
    found: list[click.Command] = []
    for name in NAMES:
        one = command(name)
        found += one.commands.values() if isinstance(one, click.Group) else [one]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_help_says_of_each_command_what_the_command_says_of_itself(name: str) -> None:
    told = next(section[name][1] for section in COMMANDS.values() if name in section)
    assert (command(name).help or "").splitlines()[0] == told
    assert command(name).name == name


def test_each_command_takes_the_shared_flags_and_each_read_can_print_json() -> None:
    for one in leaves():
        assert all(param in one.params for param in GLOBALS), one.name
    for name in ("status", "list", "tickets", "log", "why", "replay", "config", "submit", "delegate"):
        assert any("--json" in param.opts for param in command(name).params), name


def test_each_option_has_a_help() -> None:
    for one in leaves():
        for param in one.params:
            assert not isinstance(param, click.Option) or param.help, (one.name, param.name)


@pytest.mark.parametrize(
    "args", [["--help"], ["-h"], ["plan", "--help"], *([name, "--help"] for name in NAMES)]
)
def test_help_is_an_answer(cli: Cli, args: list[str]) -> None:
    said = cli(*args)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("Usage: passdown")
    assert max(len(line) for line in said.out.splitlines()) <= 80


def test_the_version_is_that_of_the_distribution(cli: Cli) -> None:
    assert cli("--version").out == "passdown 0.1.0\n"


def test_help_comes_at_once_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from passdown.broker.cli.root import run; run(['--help']);"
        "sys.exit(','.join(m for m in ('pydantic', 'rich', 'celery', 'kombu', 'jsonschema_rs', 'msgspec') if m in sys.modules))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
        == "\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([PASSDOWN, "--help"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Of the processor's time: the clock on the wall also counts what else this machine does.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.3


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["stauts"], "there is no command 'stauts'; did you mean 'status'?"),
        (["xyzzy"], "there is no command 'xyzzy'; `passdown --help` lists them"),
        (["status"], "missing argument 'SESSION'; see `passdown status --help`"),
        (["status", "a", "b"], "got unexpected extra argument (b); see `passdown status --help`"),
        (["status", "--nope", "a"], "no such option '--nope'"),
        (["plan", "chekc"], "no such command 'chekc'"),
        (["list", "--limit", "0"], "0 is not in the range 1<=x<=1000"),
        (["list", "--status", "odd"], "'odd' is not one of"),
        (["--set", "claim_by", "list"], "expected NAME=VALUE, got 'claim_by'"),
        (["--set", "claim_yb=1s", "config"], "there is no setting 'claim_yb'; did you mean 'claim_by'?"),
        (["--set", "claim_by=1", "config"], "setting claim_by (flag)"),
        (["--as", "ann", "config"], "expected kind:name, such as user:ann, got 'ann'"),
        (["--config", "gone.toml", "config"], "gone.toml does not fit its contract: cannot be read"),
        (["status", "\udcff"], "argument 2 is not UTF-8"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(cli: Cli, args: list[str], said: str) -> None:
    found = cli(*args)
    assert found.code == 2
    assert found.err.startswith("passdown: ")
    assert found.err.count("\n") == 1
    assert said in found.err
    assert found.out == ""


@pytest.mark.parametrize("args", [[], ["plan"]])
def test_a_command_that_is_not_named_gets_help(cli: Cli, args: list[str]) -> None:
    said = cli(*args)
    assert said.code == 2
    assert said.err.startswith("Usage: passdown")


CODES: list[tuple[Exception, int, str]] = [
    (errors.ContractError("x", "is wrong"), 2, "x does not fit its contract: is wrong"),
    (errors.PlanError("p", ["one"]), 2, "plan p: one"),
    (errors.PlanError("p", ["one", "two"]), 2, "plan p has 2 faults: (1) one; (2) two"),
    (errors.NotFound("session", "x"), 3, "there is no session 'x'"),
    (errors.Conflict("taken", "user:ann"), 4, "taken; user:ann was first"),
    (errors.Fenced("1/1/a", "1/2/b"), 4, "fence 1/1/a is not the current one"),
    (errors.Denied("user:ann", "do that", "no grant"), 5, "user:ann may not do that: no grant"),
    (errors.Unavailable("the store", "gone"), 6, "the store is unavailable: gone; a retry is safe"),
    (PermissionError(13, "Permission denied", "x.db"), 6, "x.db: Permission denied"),
    (KeyError("x"), 70, "this is a bug in Passdown: KeyError: 'x' (--debug shows where)"),
    (errors.NotFound("x", "a\x1b[31m\nb"), 3, "there is no x 'a\\x1b[31m\\nb'"),
    (errors.Conflict("a\x1b[31m\nb"), 4, "passdown: a [31m b"),
]


@pytest.mark.parametrize(("error", "code", "line"), CODES)
def test_each_error_has_its_exit_code_and_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, line: str
) -> None:
    def fail(_: click.Context) -> None:
        raise error

    monkeypatch.setattr(root, "invoke", fail)
    said = cli("list")
    assert (said.code, said.out) == (code, "")
    assert said.err.startswith("passdown: ")
    assert line in said.err
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    assert "Traceback" in cli("--debug", "list").err


def test_ctrl_c_and_a_closed_pipe_end_quietly(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: click.Context) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(root, "invoke", fail)
    said = cli("list")
    assert (said.code, said.err) == (130, "")


def test_a_pipe_that_nobody_reads_is_no_error(desk: Desk) -> None:
    for n in range(30):
        desk.submit(f"key {n}", orderId="1")
    for args in (["export"], ["list"], ["replay", "--all", "--json"], ["log", "key 1", "--json"], ["--help"]):
        line = f"{PASSDOWN} --store {desk.url} {' '.join(repr(arg) for arg in args)} | true; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert done.returncode in (0, edge.PIPE_CLOSED)
        assert done.stderr == ""


def test_a_shared_flag_may_stand_before_or_after_the_command(cli: Cli, desk: Desk) -> None:
    desk.submit("k", orderId="1")
    for args in (
        ["--store", desk.url, "status", "k"],
        ["status", "k", "--store", desk.url],
        ["status", "--store", desk.url, "k"],
    ):
        assert cli(*args).code == 0
    assert cli("--store", "sqlite:///gone.db", "status", "k", "--store", desk.url).code == 0


def test_looking_for_something_leaves_no_store_behind(cli: Cli, tmp_path: Path) -> None:
    for args in (
        ["status", "x"],
        ["list"],
        ["cancel", "x"],
        ["submit", "x"],
        ["export"],
        ["replay", "--all"],
        ["tools", "list"],
    ):
        said = cli(*args)
        assert said.code == 3
        assert (
            said.err
            == "passdown: there is no store 'passdown.db'; `passdown up` makes one; --store names another\n"
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("store", "code", "said"),
    [
        ("redis:localhost", 2, "store address does not fit its contract: expected sqlite:///path"),
        ("sqlite:///:memory:", 2, "store does not fit its contract: one in memory ends with this process"),
        ("sqlite:////", 2, "/ is a folder; name a file in it"),
    ],
)
def test_an_address_that_is_no_store_is_said(cli: Cli, store: str, code: int, said: str) -> None:
    found = cli("list", "--store", store)
    assert found.code == code
    assert said in found.err


def test_run_returns_what_a_shell_sees(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capfd.readouterr().out.startswith("passdown ")
