"""Turn recorded runs of a tool-using agent into the conversations that the plan reviews, one to a line.

    python prepare.py RUNS.json > conversations.jsonl

RUNS.json is a list of ``{task_id, trial, traj}``; ``traj`` is a chat as OpenAI's API has it: messages of
``user``, ``assistant`` (with ``tool_calls``) and ``tool``. A tool whose name begins with one of ``_WRITES`` writes.
"""

import json
import sys
from pathlib import Path
from typing import Any

_WRITES = ("book_", "cancel_", "update_", "send_", "create_", "delete_")
_HAND_OVER = "transfer_to_human"
#: Characters of a message that are kept.
_MOST = 400


def conversation(run: dict[str, Any]) -> dict[str, Any]:
    """Return a run as ``{id, said: [{who, text | tool, ok}]}``."""
    chat: list[dict[str, Any]] = run["traj"]
    results = {one["tool_call_id"]: one["content"] for one in chat if one["role"] == "tool"}
    said: list[dict[str, Any]] = []
    for message in chat:
        if message["role"] == "user":
            said.append(
                {"who": "customer", "text": message["content"].replace("###STOP###", "").strip()[:_MOST]}
            )
        elif message["role"] == "assistant":
            calls: list[dict[str, Any]] = message.get("tool_calls") or []
            said += [call(made, results) for made in calls]
    return {
        "id": f"run-{run['task_id']}-{run['trial']}",
        "said": [one for one in said if one["who"] != "read"],
    }


def call(made: dict[str, Any], results: dict[str, str]) -> dict[str, Any]:
    """Return a tool call: a write and whether it succeeded, a hand-over, or a read."""
    name = made["function"]["name"]
    if name.startswith(_HAND_OVER):
        return {"who": "hand-over", "tool": name}
    if name.startswith(_WRITES):
        return {"who": "write", "tool": name, "ok": not results.get(made["id"], "Error").startswith("Error")}
    return {"who": "read", "tool": name}


def main(path: Path) -> None:
    """Write the conversations of a file of runs."""
    for run in json.loads(path.read_text(encoding="utf-8")):
        print(json.dumps(conversation(run), ensure_ascii=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
