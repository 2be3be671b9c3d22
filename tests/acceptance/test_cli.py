"""The command line from outside: real processes, a store in a file, and what a person types."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PASSDOWN = str(Path(sys.executable).with_name("passdown"))

AGENTS = '''
import json
from pathlib import Path
from passdown.agents import Absent, Done, Found, NeedsInput, Question, agent, tool

OUTSIDE = Path("outside.jsonl")

def written():
    return [json.loads(line) for line in OUTSIDE.read_text().splitlines()] if OUTSIDE.exists() else []

def find(order_id, *, key):
    return next((Found(one["result"]) for one in written() if one["key"] == key), Absent())

@tool("refunds.create", effect=True, identity=["order_id"], verify=find, dedupes=True)
def create_refund(order_id: str, cents: int, *, key: str) -> dict:
    """Give money back."""
    result = {"id": f"rf-{order_id}", "cents": cents}
    with OUTSIDE.open("a") as file:
        file.write(json.dumps({"key": key, "result": result}) + "\\\\n")
    return result

@agent("analyst")
def analyst(pack, ctx):
    if "reason" not in ctx.answers:
        return NeedsInput([Question(id="reason", text="Why?", schema={"type": "string"})])
    return Done({"cents": 4200})

@agent("cashier")
async def cashier(pack, ctx):
    refund = await ctx.call("refunds.create", order_id=pack.inputs["orderId"], cents=pack.inputs["cents"])
    return Done({"refundId": refund["id"]})
'''.replace("\\\\n", "\\n")

PLAN = """
name = "refund"
version = 1
start = "check"

[stages.check]
role = "analyst"
goal = "May order {inputs.orderId} be refunded?"
inputs = { type = "object", properties = { orderId = { type = "string" } }, required = ["orderId"] }
next = "pay"

[stages.pay]
role = "cashier"
goal = "Pay it."
tools = [{ tool = "refunds.create", approve = "refund-approvers" }]
recovery = "continue"
risk = "high"
"""


class Shell:
    """A folder with agents and a plan, in which commands are typed; what was started ends with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "agents.py").write_text(AGENTS)
        (folder / "refund.toml").write_text(PLAN)
        self._started: list[subprocess.Popen[str]] = []
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PASSDOWN_")}
        self._env = {**kept, "PASSDOWN_AS": "user:producer"}

    def run(self, *argv: str, code: int = 0) -> str:
        """Type a command, which must exit with `code`; returns what it answered."""
        done = subprocess.run(
            [PASSDOWN, *argv],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, (argv, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        if code == 0:
            assert done.stderr == ""
        elif code > 1:
            # What is denied is logged as well.
            (said,) = [line for line in done.stderr.splitlines() if "access.denied" not in line]
            assert said.startswith("passdown: ")
        return done.stdout or done.stderr

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Start a command and go on; its words go to ``log``."""
        with (self.folder / "log").open("a") as log:
            process = subprocess.Popen(
                [PASSDOWN, *argv],
                cwd=self.folder,
                env=self._env,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def status(self, session: str) -> dict[str, Any]:
        return json.loads(self.run("status", session, "--json"))

    def until(self, session: str, status: str) -> dict[str, Any]:
        """Wait until a session has a status."""
        ends = time.monotonic() + 40
        while (view := self.status(session))["status"] != status:
            assert time.monotonic() < ends, (view, (self.folder / "log").read_text())
            time.sleep(0.1)
        return view

    def up(self) -> subprocess.Popen[str]:
        """Start everything in one process, and wait until it says so."""
        process = self.start("up", "--module", "agents.py", "--plan", "refund.toml")
        ends = time.monotonic() + 40
        while "passdown is up" not in (self.folder / "log").read_text():
            assert process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < ends
            time.sleep(0.05)
        return process

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=10)
            if process.stdout:
                process.stdout.close()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    made.close()


def test_a_refund_from_the_plan_to_the_proof(shell: Shell) -> None:
    """All that the README types, in its order."""
    assert shell.run("plan", "check", "refund.toml", "--module", "agents.py") == "refund.toml: sound\n"
    up = shell.up()
    words = (
        "submit",
        "refund",
        "--task",
        "Acme refund 4711",
        "--input",
        "orderId=4711",
        "--key",
        "order-4711",
    )
    session = shell.run(*words).strip()
    assert shell.run(*words).strip() == session

    asked = shell.until("order-4711", "waiting-input")
    assert asked["questions"][0]["text"] == "Why?"
    shell.run("answer", "order-4711", "reason", "42")
    proposed = shell.until(session, "waiting-human")
    assert proposed["tickets"][0]["args"] == {"order_id": "4711", "cents": 4200}
    assert session in shell.run("tickets", "--queue", "refund-approvers")
    assert "whoever initiated" in shell.run("resolve", f"{session}/1", "approve", code=5)
    shell.run("resolve", f"{session}/1", "approve", "--version", "1", "--as", "user:ann", "--note", "fine")

    outcome = json.loads(shell.run(*words, "--wait", "--timeout", "40s", "--json"))
    assert outcome["outcome"]["output"] == {"refundId": "rf-4711"}
    (line,) = (shell.folder / "outside.jsonl").read_text().splitlines()
    effect = json.loads(line)["key"]
    why = json.loads(shell.run("why", effect, "--json"))
    assert (why["submittedBy"], why["decisions"][0]["by"], why["status"]) == (
        "user:producer",
        "user:ann",
        "done",
    )
    assert (
        shell.run("replay", "order-4711")
        .splitlines()[-1]
        .startswith("the log gives the stored state, byte for byte")
    )
    assert "every log gives its stored state" in shell.run("replay", "--all")
    check_export(shell, session, effect)

    up.send_signal(signal.SIGINT)
    assert up.wait(timeout=30) == 0
    assert shell.status(session)["status"] == "done"


def check_export(shell: Shell, session: str, effect: str) -> None:
    """What a check from outside does: the chain of numbers, one done effect for each write outside."""
    shell.run("export", "--out", "all.jsonl")
    lines = [json.loads(line) for line in (shell.folder / "all.jsonl").read_text().splitlines()]
    assert [one["status"] for one in lines if one["kind"] == "session"] == ["done"]
    events = [one for one in lines if one["kind"] == "event"]
    assert [one["seq"] for one in events] == list(range(1, len(events) + 1))
    (row,) = [one for one in lines if one["kind"] == "effect"]
    assert (row["key"], row["status"], row["args"]["cents"], row["sessionId"]) == (
        effect,
        "done",
        4200,
        session,
    )
    (ticket,) = [one for one in lines if one["kind"] == "ticket"]
    assert (ticket["resolution"], ticket["closedBy"]) == ("approve", "user:ann")


def test_workers_and_a_tick_as_processes_of_their_own(shell: Shell) -> None:
    shell.run("plan", "register", "refund.toml")
    session = shell.run("submit", "refund", "--input", "orderId=1").strip()
    assert "a worker of role analyst" in shell.status(session)["waits"][0]["what"]
    worker = shell.start("worker", "analyst", "cashier", "--module", "agents.py", "--concurrency", "2")
    tick = shell.start("tick", "--set", "tick_every=100ms")
    shell.until(session, "waiting-input")
    shell.run("answer", session, "reason", "because")
    shell.until(session, "waiting-human")
    shell.run("resolve", f"{session}/1", "approve", "--version", "1", "--as", "user:ann")
    shell.until(session, "done")
    for process in (worker, tick):
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def test_a_session_waits_for_tools_until_they_are_registered(shell: Shell) -> None:
    shell.run("plan", "register", "refund.toml")
    shell.start("up")
    session = shell.run("submit", "refund", "--input", "orderId=1").strip()
    (shell.folder / "only_analyst.py").write_text(
        "from passdown.agents import Done, agent\n@agent('analyst')\ndef a(pack, ctx): return Done({'cents': 1})\n"
    )
    shell.start("worker", "analyst", "--module", "only_analyst.py")
    ends = time.monotonic() + 40
    while (view := shell.status(session))["stage"] != "pay":
        assert time.monotonic() < ends, (view, (shell.folder / "log").read_text())
        time.sleep(0.1)
    assert view["missingTools"] == ["refunds.create"]
    assert "refunds.create" in shell.run("status", session)
    shell.run("tools", "register", "agents.py")
    ends = time.monotonic() + 40
    while not any(one["kind"] == "worker" for one in shell.status(session)["waits"]):
        assert time.monotonic() < ends
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_ends_when_told_to(shell: Shell, number: signal.Signals) -> None:
    up = shell.up()
    up.send_signal(number)
    assert up.wait(timeout=30) == 0
    assert "Traceback" not in (shell.folder / "log").read_text()


@pytest.mark.parametrize(
    "argv", [("submit", "refund", "--input", "orderId=1", "--wait"), ("log", "waits", "--follow")]
)
def test_ctrl_c_ends_a_wait_and_nothing_else(shell: Shell, argv: tuple[str, ...]) -> None:
    shell.run("plan", "register", "refund.toml")
    shell.run("submit", "refund", "--input", "orderId=1", "--key", "waits")
    before = shell.run("list")
    process = shell.start(*argv)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert (shell.folder / "log").read_text() == ""
    assert shell.run("status", "waits", "--json")
    if argv[0] == "log":
        assert shell.run("list") == before


def test_what_cannot_be_imported_or_read_stops_a_process_with_one_line(shell: Shell) -> None:
    (shell.folder / "broken.py").write_text("import nothing_of_this_name\n")
    for argv in (
        ("up", "--module", "broken.py"),
        ("up", "--module", "gone.py"),
        ("up", "--plan", "gone.toml"),
        ("worker", "analyst", "--module", "broken.py"),
        ("worker", "nobody", "--module", "agents.py"),
        ("up", "--transport", "carrier-pigeon://"),
        ("tick", "--store", "http://localhost"),
    ):
        said = shell.run(*argv, code=2)
        assert "passdown: " in said


def test_two_people_decide_at_once_and_one_is_told_who_was_first(shell: Shell) -> None:
    shell.up()
    session = shell.run("submit", "refund", "--input", "orderId=1").strip()
    shell.until(session, "waiting-input")
    shell.run("answer", session, "reason", "because")
    shell.until(session, "waiting-human")
    racers = [
        subprocess.Popen(
            [PASSDOWN, "resolve", f"{session}/1", what, "--version", "1", "--as", f"user:{name}"],
            cwd=shell.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, what in (("ann", "approve"), ("bob", "deny"))
    ]
    said = [racer.communicate(timeout=60) for racer in racers]
    assert sorted(racer.returncode for racer in racers) == [0, 4]
    loser = next(err for racer, (_, err) in zip(racers, said, strict=True) if racer.returncode == 4)
    assert loser.startswith("passdown: ticket ")
