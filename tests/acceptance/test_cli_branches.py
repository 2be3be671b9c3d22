"""Fan-out and join from outside: a list from a file, branches that disagree, a person who sends one of them back."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.test_cli import Shell

AGENTS = """
from passdown.agents import Done, agent

@agent("reviewer")
def reviewer(pack, ctx):
    document = pack.inputs["document"]
    verdict = "fine" if pack.feedback else document["says"]
    return Done({"verdict": verdict}, evidence=[{"claim": verdict, "source": document["name"]}])
"""
PLAN = """
name = "batch"
version = 1
start = "fan"

[stages.fan]
fan_out = { each = "documents", stage = "review", item = "document", key = "name" }
join = { merge = "first", conflict = ["verdict"], on_conflict = "reviewers" }
goal = "One verdict."

[stages.review]
role = "reviewer"
goal = "Review {inputs.document.name}."
returns = { schema = { type = "object", properties = { verdict = { type = "string" } }, required = ["verdict"] } }
"""
DOCUMENTS = [{"name": f"doc-{n}", "says": "bad" if n == 3 else "fine"} for n in range(30)]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    (tmp_path / "agents.py").write_text(AGENTS)
    (tmp_path / "refund.toml").write_text(PLAN)
    (tmp_path / "documents.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in DOCUMENTS))
    yield made
    made.close()


def test_branches_that_disagree_are_compared_and_one_is_sent_back(shell: Shell) -> None:
    assert shell.run("plan", "check", "refund.toml") == "refund.toml: sound\n"
    shell.up()
    words = ("submit", "batch", "--list", "documents=documents.jsonl", "--key", "k", "--task", "A batch")
    session = shell.run(*words).strip()
    shell.until("k", "waiting-human")

    ticket = f"{session}/1"
    assert ticket in shell.run("tickets", "--queue", "reviewers")
    compared = json.loads(shell.run("show", ticket, "--json"))
    (field,) = compared["differ"]
    assert [(one["value"], one["count"]) for one in field["said"]] == [("fine", 29), ("bad", 1)]
    assert f"passdown resolve {ticket} send-back --branch doc-3 " in shell.run("show", ticket)
    shell.run("resolve", ticket, "send-back", "--branch", "doc-3", "--note", "read page 2")

    done = json.loads(shell.run(*words, "--wait", "--timeout", "40s", "--json"))
    assert done["outcome"]["output"] == {"verdict": "fine"}
    (doc,) = json.loads(shell.run("list", "--branches-of", "k", "--from", "3", "--limit", "1", "--json"))[
        "branches"
    ]
    assert (doc["name"], doc["status"], doc["counts"]) == ("doc-3", "done", True)
    assert f"    ├── doc-3   done  {doc['sessionId']}  attempt 2\n" in shell.run("show", "k", "--all")
    assert "Reopened" in shell.run("log", "--tree", "k")
    log = shell.run("log", "k").splitlines()
    assert sum(line.strip().startswith("done ") for line in log) == 30
    assert f"{session} (A batch) > fan/doc-3" in shell.run("status", doc["sessionId"])
    assert "every log gives its stored state" in shell.run("replay", "--all")
