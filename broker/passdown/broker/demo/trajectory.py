"""Reads a file of recorded agent runs (a list of ``{task_id, trial, traj}``) into `Run` records.

A result belongs to the call just before it, for call ids repeat within a run. What a run cannot be
replayed without is checked here, so that a bad file is refused whole, with the place of the fault.
"""

import json
import re
from pathlib import Path
from typing import Any, cast

from passdown.broker.demo.fitting import fit
from passdown.broker.demo.record import TRANSFER, Act, Asked, Called, Run, Said, writes
from passdown.contracts.codec import check, digest, encode
from passdown.contracts.errors import ContractError

#: Arguments of one effect may have this many bytes; see `passdown.broker.core.effects`.
_ARGS_BUDGET = 32 * 1024
#: All of them stand in each pack.
MOST_TOOLS = 100
_TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,99}")
_KEY_LENGTH = 200

Json = dict[str, Any]


class _Bad(Exception):
    def __init__(self, problem: str, *place: object) -> None:
        super().__init__(problem)
        self.problem = problem
        self.pointer = "".join(f"/{part}" for part in place)


def read_runs(path: Path) -> list[Run]:
    """Return the runs in a file. Raises ContractError, with the place, where it is not of the format."""
    what = f"recorded file {path}"
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise ContractError(what, f"it cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ContractError(what, f"not UTF-8 JSON: {error}") from error
    try:
        return _runs(found)
    except _Bad as bad:
        raise ContractError(what, bad.problem, pointer=bad.pointer) from None


def _runs(found: object) -> list[Run]:
    if not isinstance(found, list) or not found:
        raise _Bad("expected a list of at least one run")
    keys: set[str] = set()
    runs: list[Run] = []
    for number, one in enumerate(cast(list[object], found)):
        run = _run(one, number, keys)
        keys.add(run.key)
        runs.append(run)
    tools = {call.tool for run in runs for call in run.calls()}
    if len(tools) > MOST_TOOLS:
        raise _Bad(f"the runs call {len(tools)} different tools; one plan grants at most {MOST_TOOLS}")
    return runs


def _run(found: object, number: int, keys: set[str]) -> Run:
    run = _object(found, "a run", number)
    task_id, trial = _name(run, "task_id", number), _name(run, "trial", number, "0")
    traj = run.get("traj")
    if not isinstance(traj, list):
        raise _Bad("expected the list of messages", number, "traj")
    reading = _Reading(cast(list[object], traj), number)
    reading.read()
    key = _unused(f"recorded:{task_id}:{trial}", keys)
    if len(key) > _KEY_LENGTH:
        raise _Bad(f"longer than {_KEY_LENGTH - 20} characters", number, "task_id")
    whole = Run(
        key=key,
        task_id=task_id,
        trial=trial,
        request=reading.request,
        acts=reading.acts,
        transfer=reading.transfer,
        strays=reading.strays,
    )
    fitted = fit(whole)
    if fitted is None:
        raise _Bad("it asks so often that its answers cannot stand in one session's state", number, "traj")
    return fitted


def _unused(key: str, keys: set[str]) -> str:
    """Return the key; a second run of the same task and trial is a session of its own."""
    again = 2
    found = key
    while found in keys:
        found = f"{key}#{again}"
        again += 1
    return found


def _name(run: Json, field: str, number: int, default: str | None = None) -> str:
    value = run.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _Bad(f"expected a number or a string, got {_shown(value)}", number, field)
    return _clean(str(value))


class _Reading:
    """Goes through the messages of one run once."""

    def __init__(self, messages: list[object], number: int) -> None:
        self._number = number
        self._messages = [self._message(one, at) for at, one in enumerate(messages)]
        self._at = 0
        self.acts: list[Act] = []
        self.transfer: str | None = None
        self.strays = 0
        self.request = ""

    def read(self) -> None:
        """Fill in ``request``, ``acts`` and ``transfer``."""
        self.request = "\n\n".join(self._block("user"))
        while self._at < len(self._messages):
            at, (role, message) = self._at, self._messages[self._at]
            self._at += 1
            if role == "assistant":
                self._assistant(at, message)
            elif role == "user":
                self._say(at, "customer", self._text(at))
            elif role == "tool":
                self.strays += 1

    def _assistant(self, at: int, message: Json) -> None:
        text, calls = self._text(at), self._calls(at, message)
        if calls:
            self._say(at, "agent", text)
            results, strays = _paired([call_id for _, _, call_id in calls], self._results())
            self.strays += strays
            for (tool, args, _), result in zip(calls, results, strict=True):
                self._call(at, tool, args, result)
        elif text:
            turns = self._block("user")
            self.acts.append(Asked(message=at, text=text, answer="\n\n".join(turns) if turns else None))

    def _call(self, at: int, tool: str, args: Json, result: str | None) -> None:
        if tool == TRANSFER:
            self.transfer = self.transfer or str(args.get("summary") or "transferred to people")
            return
        write = writes(tool)
        if write and len(encode(args)) > _ARGS_BUDGET:
            raise _Bad(f"the arguments of {tool} have more than {_ARGS_BUDGET} bytes", *self._place(at))
        self.acts.append(Called(message=at, tool=_tool_name(tool), args=args, result=result, writes=write))

    def _say(self, at: int, by: str, text: str) -> None:
        if text:
            self.acts.append(Said(message=at, by=by, text=text))

    def _block(self, role: str) -> list[str]:
        """Take the messages of `role` that come next; return their texts."""
        began = self._at
        while self._at < len(self._messages) and self._messages[self._at][0] in (role, "system"):
            self._at += 1
        return [self._text(at) for at in range(began, self._at) if self._messages[at][0] == role]

    def _results(self) -> list[tuple[str, str]]:
        began = self._at
        texts = self._block("tool")
        ids = [
            str(message.get("tool_call_id", ""))
            for role, message in self._messages[began : self._at]
            if role == "tool"
        ]
        return list(zip(ids, texts, strict=True))

    def _message(self, found: object, at: int) -> tuple[str, Json]:
        message = _object(found, "a message", *self._place(at))
        role = message.get("role")
        if role not in ("user", "assistant", "tool", "system"):
            raise _Bad(
                f"expected user, assistant, tool or system, got {_shown(role)}", *self._place(at), "role"
            )
        return role, message

    def _text(self, at: int) -> str:
        content = self._messages[at][1].get("content")
        match content:
            case None:
                return ""
            case str():
                return _clean(content)
            case list():
                parts = cast(list[object], content)
                texts = [cast(Json, part).get("text", "") for part in parts if isinstance(part, dict)]
                return _clean("\n".join(text for text in texts if isinstance(text, str)))
            case _:
                raise _Bad(f"expected text, got {_shown(content)}", *self._place(at), "content")

    def _calls(self, at: int, message: Json) -> list[tuple[str, Json, str]]:
        found: object = message.get("tool_calls") or []
        if not isinstance(found, list):
            raise _Bad("expected a list", *self._place(at), "tool_calls")
        calls: list[tuple[str, Json, str]] = []
        for n, one in enumerate(cast(list[object], found)):
            place = (*self._place(at), "tool_calls", n)
            call = _object(one, "a call", *place)
            function = _object(call.get("function"), "an object", *place, "function")
            name = function.get("name")
            if not isinstance(name, str) or not name:
                raise _Bad(f"expected the name of a tool, got {_shown(name)}", *place, "function", "name")
            calls.append((_clean(name), _args(function.get("arguments")), str(call.get("id", ""))))
        return calls

    def _place(self, at: int) -> tuple[object, ...]:
        return (self._number, "traj", at)


def _paired(calls: list[str], results: list[tuple[str, str]]) -> tuple[list[str | None], int]:
    """Return the result of each call of a message, and how many results belong to none.

    Within one message the ids tell, if they are distinct; else the order does.
    """
    by_id = dict(results)
    if len(set(calls)) == len(calls) and len(by_id) == len(results) and by_id.keys() <= set(calls):
        return [by_id.get(one) for one in calls], 0
    texts = [text for _, text in results[: len(calls)]]
    return [*texts, *[None] * (len(calls) - len(texts))], len(results) - len(texts)


def _args(found: object) -> Json:
    """Return a call's arguments; what is no object that may travel is kept as its text."""
    if found is None or found == "":
        return {}
    value = found
    if isinstance(found, str):
        try:
            value = json.loads(found)
        except (ValueError, RecursionError):
            value = None
    args = cast(Json, value) if isinstance(value, dict) else None
    if args is not None and _may_travel(args):
        # `ctx.call` has an argument of this name itself.
        return {"arguments": args} if "after" in args else args
    return {"arguments": _clean(found if isinstance(found, str) else json.dumps(found))}


def _may_travel(value: object) -> bool:
    try:
        check({"arguments": value}, what="arguments")
    except ContractError:
        return False
    return True


def _tool_name(name: str) -> str:
    """Return the name itself, or one made of it where the registry of tools would not take it."""
    if _TOOL_NAME.fullmatch(name):
        return name
    return f"tool.{re.sub(r'[^A-Za-z0-9_./-]', '-', name)[:60]}.{digest(name.encode())[:8]}"


def _object(found: object, what: str, *place: object) -> Json:
    if not isinstance(found, dict):
        raise _Bad(f"expected {what}, got {_shown(found)}", *place)
    return cast(Json, found)


def _clean(text: str) -> str:
    """Return the text with what UTF-8 cannot carry (lone surrogates) made visible."""
    return text.encode("utf-8", "backslashreplace").decode()


def _shown(value: object) -> str:
    kind = type(value).__name__
    return kind if kind in ("list", "dict") else repr(value)[:60]
