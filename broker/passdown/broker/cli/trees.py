"""The tree of a session, on a screen: fan-outs and branches below it, each with what it waits for."""

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text
from rich.tree import Tree as Drawn

from passdown.broker.cli.output import hint, out, say, status_text
from passdown.broker.cli.screens import label, path_text
from passdown.broker.cli.tables import show
from passdown.broker.cli.words import clean, cut, line, span
from passdown.broker.joins.showing import ABSENT, BranchView, JoinView
from passdown.broker.joins.tree import BranchNode, JoinNode, Tree
from passdown.broker.joins.waits import Waiting

#: The least room that what a branch waits for needs to stand beside its name (columns).
_ROOM = 24
#: A longer name of a branch is cut.
_NAME = 30
_STANDING = {
    "wait": ("waits", "blue"),
    "enough": ("enough", "green"),
    "partial": ("joined with what was there", "yellow"),
    "chosen": ("joined", "green"),
    "vetoed": ("vetoed", "red"),
    "left": ("not joined", "red"),
    "conflict": ("in conflict", "bold yellow"),
    "short": ("short", "bold yellow"),
    "sent-back": ("sent back", "yellow"),
}


class Line:
    """A line of a tree: `lead`, then `text`, which wraps within its indent, or below where there is no room."""

    def __init__(self, lead: Text, text: Text | None = None) -> None:
        self._lead = lead
        self._text = text or Text()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the line as it fits."""
        width, indent = options.max_width, self._lead.cell_len
        if not self._text:
            yield from _wrapped(console, self._lead, width)
        elif width - indent < _ROOM:
            yield from _wrapped(console, self._lead, width)
            yield from (Text("  ") + part for part in _wrapped(console, self._text, max(width - 2, 10)))
        else:
            lead = self._lead
            for part in _wrapped(console, self._text, width - indent):
                yield lead + part
                lead = Text(" " * indent)


def _wrapped(console: Console, text: Text, width: int) -> list[Text]:
    lines = list(text.wrap(console, width))
    for one in lines:
        one.rstrip()
    return lines


def show_tree(tree: Tree) -> None:
    """Print a session and everything below it."""
    say(Text(clean(tree.task_name), style="bold") + Text("  ") + status_text(tree.status))
    if tree.above:
        label("branch", path_text(tree.above))
    root = Drawn(Line(*_root(tree)), guide_style="dim", hide_root=False)
    for one in tree.joins:
        _grow(root, one, tree)
    out().print(root)
    if not tree.joins:
        hint("it opened no branches")
    if any(one.rest for one in tree.joins):
        hint(f"all branches: passdown show {tree.session_id} --all")


def _root(tree: Tree) -> tuple[Text, Text]:
    lead = Text(f"{tree.session_id}  ")
    attempt = f", attempt {tree.attempt}" if tree.attempt > 1 else ""
    text = Text(f"{clean(tree.plan)}, stage {clean(tree.stage)}, step {tree.step}{attempt}")
    waits = _waits(tree.waits, tree.now)
    return lead, text.append(f"; {waits}" if waits else "")


def _waits(waits: list[Waiting], now: int) -> str:
    """Return what is waited for, other than branches: those stand below."""
    found = [f"{clean(one.what)}{_until(one.until, now)}" for one in waits if one.kind != "join"]
    return f"waits for {'; '.join(found)}" if found else ""


def _until(at: int | None, now: int) -> str:
    if at is None:
        return ""
    return f" in {span(at - now)}" if at > now else f" (due since {span(now - at)})"


def _grow(limb: Drawn, node: JoinNode, tree: Tree) -> None:
    below = limb.add(Line(*join_line(node.join, tree.now)))
    names = [_name(one.branch) for one in node.branches]
    widths = (
        max((name.cell_len for name in names), default=0),
        max((len(one.branch.status) for one in node.branches), default=0),
    )
    for name, one in zip(names, node.branches, strict=True):
        inner = below.add(Line(*_branch(name, one, widths, tree.now)))
        for join in one.joins:
            _grow(inner, join, tree)
    if node.rest:
        total = sum(node.rest.values())
        below.add(Line(Text(f"{total:,} more: {counts_text(node.rest)}", style="dim")))


def join_line(join: JoinView, now: int) -> tuple[Text, Text]:
    """Return a join in one line: what it needs, what it has, and how it stands."""
    word, style = _STANDING[join.standing]
    word = "joined" if word == "enough" and join.closed else word
    lead = Text(f"{clean(join.stage)}  ", style="bold")
    text = Text()
    text.append(word, style=style)
    if join.branch:
        text.append(f" with {clean(join.branch)}, which a person chose")
    counts = "counts" if join.have == 1 else "count"
    text.append(f": {join.rule}, {join.have:,} {counts if join.closed else 'so far'}")
    text.append(f" ({counts_text(join.outcomes)})" if join.outcomes else "")
    if join.deadline is not None:
        text.append(f", deadline{_until(join.deadline, now)}")
    if join.ticket:
        text.append(f"; ticket {join.ticket}", style="yellow")
    if join.why:
        text.append(f"; {line(join.why)}")
    if join.closed and (join.outcomes.get("open") or join.outcomes.get("waiting")):
        text.append("; the others are called off")
    return lead, text


def counts_text(counts: dict[str, int]) -> str:
    """Return counts of branches by what is said of them: ``12 done, 1 failed``."""
    return ", ".join(f"{count:,} {word}" for word, count in counts.items())


def _name(branch: BranchView) -> Text:
    return Text(cut(clean(branch.name), _NAME), style="bold")


def _branch(name: Text, node: BranchNode, widths: tuple[int, int], now: int) -> tuple[Text, Text]:
    branch = node.branch
    lead = name.copy()
    lead.pad_right(widths[0] + 2 - name.cell_len)
    status = status_text(branch.status)
    status.pad_right(widths[1] + 2 - status.cell_len)
    return lead + status, branch_text(branch, now)


def branch_text(branch: BranchView, now: int) -> Text:
    """Return what is to be said of a branch beside its name and status."""
    text = Text() if branch.status in ABSENT else Text(branch.session_id, style="dim")
    notes = _notes(branch, now)
    return text.append(f"{'  ' if text else ''}{notes}", style="none") if notes else text


def _notes(branch: BranchView, now: int) -> str:
    notes: list[str] = []
    if branch.outcome and branch.outcome != branch.status:
        notes.append(f"{branch.outcome} after the join was closed")
    if branch.stage and not branch.outcome:
        notes.append(f"stage {clean(branch.stage)}")
    if branch.attempt > 1:
        notes.append(f"attempt {branch.attempt}")
    notes += [line(branch.reason)] if branch.reason else []
    notes.append(_waits(branch.waits, now))
    return "; ".join(one for one in notes if one)


def show_branches(rows: Sequence[BranchView], now: int) -> None:
    """Print branches in columns."""
    lines: list[list[str | Text]] = [
        [
            str(one.place),
            Text(cut(clean(one.name), _NAME)),
            status_text(one.status),
            one.session_id if one.status not in ABSENT else "-",
            _notes(one, now),
        ]
        for one in rows
    ]
    show(
        ["place", "branch", "status", "session", "what it says or waits for"], lines, "there are no branches"
    )
