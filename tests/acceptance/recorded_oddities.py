"""A file of recorded runs with everything that real ones have, and what they might have."""

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def user(content: object) -> Json:
    return {"role": "user", "content": content}


def said(content: object, *calls: Json) -> Json:
    message: Json = {"role": "assistant", "content": content}
    return {**message, "tool_calls": list(calls)} if calls else message


def call(name: str, arguments: object, call_id: str = "call_1") -> Json:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def result(content: object, call_id: str = "call_1", name: str = "tool") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}


def run(task_id: object, *traj: Json, trial: object = 0) -> Json:
    return {"task_id": task_id, "trial": trial, "reward": 1.0, "info": {}, "traj": list(traj)}


BOOK = {"user_id": "ann", "flights": [{"number": "PD1", "date": "2024-05-20"}], "total": 2}
CANCEL = {"reservation_id": "ABC"}

RUNS: list[Json] = [
    # Two equal writes, with a failed one of the same arguments between them; ends on a tool result.
    run(
        1,
        user("Book twice"),
        said(None, call("book_reservation", BOOK)),
        result('{"id": "R1"}'),
        said("", call("book_reservation", BOOK)),
        result("Error: no seat left"),
        said("Once more.", call("book_reservation", BOOK)),
        result('{"id": "R2"}'),
    ),
    # Several calls in one message: results by id, out of order; then ids that repeat, so by place.
    run(
        2,
        user("Cancel both"),
        said(None, call("get_user_details", {"user_id": "bo"}, "a"), call("cancel_reservation", CANCEL, "b")),
        result('{"cancelled": true}', "b"),
        result('{"name": "Bo"}', "a"),
        said(None, call("cancel_reservation", {"reservation_id": "X"}), call("think", {"thought": "hm"})),
        result('{"cancelled": "X"}'),
        result(""),
        said("Done, anything else?"),
        user("No, thanks. ###STOP###"),
    ),
    # Begins with the agent; two texts in a row; ends on a text that nobody answers.
    run(
        3,
        said("Welcome!"),
        said("How can I help?"),
        user("Send me a certificate"),
        said("Sure.", call("send_certificate", {"user_id": "cy", "amount": 50})),
        result('"sent"'),
        said("Good bye."),
    ),
    # A transfer in the middle: what the record holds after it is played before people take over.
    run(
        4,
        user("I want a person"),
        said(None, call("transfer_to_human_agents", {"summary": "wants a person"})),
        result("Transfer successful"),
        said(None, call("update_reservation_baggages", {"reservation_id": "Q", "total_baggages": 3})),
        result('{"id": "Q"}'),
        said("A person will call you."),
        user("Fine."),
    ),
    # Unknown tools, reading and writing; a reading error; odd names and arguments; no result at the end.
    run(
        5,
        user("Surprise me"),
        said(None, call("look_around", {})),
        result("Error: nothing there"),
        said(None, call("send_fax", {"to": "+49", "key": "k", "self": 1, "after": "noon"})),
        result("ok"),
        said(None, call("cancel_everything now!", '{"broken": ')),
        result("Error: what?"),
        said(None, call("update_nothing", "[1, 2]")),
        result(None),
        said(None, call("book_it", {"big": 2**60, "deep": "x"})),
        result("ok"),
        said(None, call("think", {"thought": "what now"})),
        trial="b",
    ),
    # Empty contents, strange contents, turns that nobody asked for, results of nothing.
    run(
        6,
        user(""),
        said(""),
        user([{"type": "text", "text": "part one"}, {"type": "text", "text": "part two"}]),
        said(None),
        result("a result of nothing"),
        user("hello?"),
        said([{"type": "text", "text": "Yes?"}]),
        user(""),
    ),
    run(7),
    # The same task and trial again, with another content.
    run(1, user("Again"), said(None, call("cancel_reservation", CANCEL)), result("ok")),
    # Texts far beyond the budgets of packs, returns and states, and results that are larger than any.
    run(
        "long text \U0001f6eb",
        user("x" * 200_000),
        said("y" * 100_000),
        user("z" * 9_000),
        said(None, call("get_everything", {"page": 1})),
        result("r" * 300_000),
        said(None, call("update_notes", {"text": "n" * 20_000})),
        result("w" * 100_000),
        *[
            message
            for n in range(36)
            for message in (said(f"{n} " + "\u0000é" * 2000), user(f"{n} " + "ü" * 3000))
        ],
        *[
            message
            for n in range(40)
            for message in (said(None, call("get_page", {"n": n})), result(f"{n}" * 3000))
        ],
        said("\ud800 lone"),
        user("bye"),
    ),
    # More reading calls between two texts than one commit notes, and many writes.
    run(
        9,
        user("go"),
        *[
            message
            for n in range(60)
            for message in (said(None, call("search_direct_flight", {"n": n})), result(f"[{n}]"))
        ],
        *[
            message
            for n in range(18)
            for message in (
                said(None, call("update_reservation_flights", {"n": n, "pad": "p" * 5000})),
                result("Error" if n % 7 == 3 else f"ok {n}"),
            )
        ],
        said("All updated"),
        user("thanks"),
    ),
]


def write_oddities(folder: Path) -> Path:
    """Write the file; returns its path."""
    path = folder / "oddities.json"
    path.write_text(json.dumps(RUNS))
    return path
