"""Settings: flag, then environment, then ``passdown.toml``, then default (DESIGN §11).

`Settings` is the one table: each field has its name, default, type and meaning, and its environment
variable is made of its name. ``docs/settings.md`` is generated from it (`settings_page`).
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from passdown.broker import setting_values as read
from passdown.broker.plans.durations import spell
from passdown.broker.plans.faults import closest, one_line, show
from passdown.contracts.errors import ContractError

CONFIG_FILE = "passdown.toml"
#: The type of a setting whose value is shown nowhere.
SECRET = "secret"  # noqa: S105 - a word for it, none itself
PREFIX = "PASSDOWN_"
#: In place of the archive's folder: sessions are removed, and nothing of them is kept.
NO_ARCHIVE = "none"


def _setting(name: str, kind: str, default: Any, meaning: str) -> Any:
    return Field(default=default, alias=name, title=kind, description=meaning, repr=kind != SECRET)


class Settings(BaseModel):
    """What a process is told from outside. Durations are seconds; ``0`` means no limit where that is said."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)

    store: Annotated[str, BeforeValidator(read.address)] = _setting(
        "store",
        "address",
        "sqlite:///passdown.db",
        "Where the truth is kept: `sqlite:///PATH` for the processes of one machine (`sqlite:///:memory:` for one"
        " process), or `redis://[USER:PASSWORD@]HOST:PORT/DB` for those of many (`rediss://` over TLS, `unix:///PATH`"
        " by a socket), with options such as `?shards=4&prefix=NAME&timeout=SECONDS`.",
    )
    transport: Annotated[str, BeforeValidator(read.text)] = _setting(
        "transport",
        "address",
        "",
        "What carries doorbells, pushed packs, returns and outgoing events: `memory://` within one process,"
        " `filesystem://FOLDER` between processes of one machine, `redis://[USER:PASSWORD@]HOST:PORT/DB` or"
        " `amqp://USER:PASSWORD@HOST:PORT/VHOST` (RabbitMQ) between machines; `rediss://` and `amqps://` are the same"
        " over TLS. Empty: beside the store, in a folder or on the same Redis server, also by its socket.",
    )
    principal: Annotated[str, BeforeValidator(read.principal)] = _setting(
        "as",
        "kind:name",
        "",
        "The principal that acts, such as `user:ann`. Empty: the operating system's user.",
    )
    token: Annotated[str, BeforeValidator(read.secret)] = _setting(
        "token",
        SECRET,
        "",
        "The token that says who acts (docs/security.md); it counts before `token_file`. Better than a flag, which"
        " every list of processes shows, is its variable, and better than that a file.",
    )
    token_file: Annotated[str, BeforeValidator(read.text)] = _setting(
        "token_file",
        "path",
        "",
        "The file that holds the token. Nobody but its owner may read it (`chmod 600`).",
    )
    access: Annotated[str, read.choice("auto", "tokens")] = _setting(
        "access",
        "word",
        "auto",
        "Where a token is needed: `auto`, on a Redis server once a token was made there; or everywhere, `tokens`.",
    )
    claim_by_s: Annotated[float, read.duration("100ms", "1h")] = _setting(
        "claim_by",
        "duration",
        10.0,
        "How long a taken pack is reserved; one not claimed by then is takeable again.",
    )
    concurrency: Annotated[int, read.number(1, 1000)] = _setting(
        "concurrency", "number", 8, "Packs that one worker process runs at once, 1 to 1000."
    )
    pool: Annotated[str, read.choice("threads", "prefork", "solo")] = _setting(
        "pool",
        "word",
        "threads",
        "What a worker runs agents in: `threads` of one process, `prefork` (as many processes, for agents that are"
        " heavy or unsafe), or `solo` (one at a time).",
    )
    worker_grace_s: Annotated[float, read.duration("10ms", "1d")] = _setting(
        "worker_grace",
        "duration",
        10.0,
        "How long running agents may go on when their worker is told to stop; what has not ended by then is handed"
        " back.",
    )
    roles: Annotated[list[str], BeforeValidator(read.name_list)] = _setting(
        "roles", "list", [], "The roles that `worker` serves where its command names none."
    )
    merge: Annotated[bool, BeforeValidator(read.switch)] = _setting(
        "merge",
        "true or false",
        True,
        "Serve the merges of fan-outs beside the roles of `worker` and `up`: those that Passdown does itself"
        " (`passdown.merge`), and those of the reducers in the modules. Some worker must.",
    )
    role_limits: Annotated[dict[str, int], BeforeValidator(read.role_limits)] = _setting(
        "limits.roles",
        "role = number",
        {},
        "Packs of a role that run at once, over all workers; 0 or absent: no limit. All workers should say the same.",
    )
    task_limit: Annotated[int, read.number(0, read.MOST_RUNNING)] = _setting(
        "limits.task", "number", 0, "Packs of one task that run at once, over all workers; 0: no limit."
    )
    push_limit: Annotated[int, read.number(1, read.MOST_RUNNING)] = _setting(
        "limits.push",
        "number",
        1_000,
        "Packs of a role that are pushed and not returned yet; the others wait in the store, so that a role which"
        " nobody serves fills no transport.",
    )
    tick_every_s: Annotated[float, read.duration("10ms", "1m")] = _setting(
        "tick_every",
        "duration",
        1.0,
        "The longest wait between two looks at what is due, and so how late a timer, a lost lease or a lost"
        " doorbell is seen.",
    )
    store_patience_s: Annotated[float, read.duration("100ms", "1h")] = _setting(
        "store_patience",
        "duration",
        20.0,
        "How long a command is tried again while the store does not answer.",
    )
    queue_limit: Annotated[int, read.number(0, 1_000_000_000)] = _setting(
        "queue_limit",
        "number",
        1_000_000,
        "Packs that may wait for a role before new sessions are refused that would add one; 0: no limit.",
    )
    accept_effect_loss: Annotated[bool, BeforeValidator(read.switch)] = _setting(
        "accept_effect_loss",
        "true or false",
        False,
        "Let plans write with tools that lack `dedupes` on a store that may lose its last moments (Redis unless"
        " `appendfsync` is `always`): then a write may happen twice.",
    )
    events: Annotated[str, BeforeValidator(read.exchange)] = _setting(
        "events",
        "name",
        "",
        "The exchange on which changes of status are told of the sessions that this process submits. Empty: on none.",
    )
    events_source: Annotated[str, BeforeValidator(read.source)] = _setting(
        "events_source",
        "URI reference",
        "/passdown",
        "Whose events they are: the `source` of what a tick tells, the same for all ticks of a store.",
    )
    retention_s: Annotated[float, read.duration("1h", "3650d", zero="for ever")] = _setting(
        "retention",
        "duration",
        0.0,
        "How long sessions are kept after their end, 1h to 3650d; then they are archived and removed. `0s`: for ever.",
    )
    archive: Annotated[str, BeforeValidator(read.text)] = _setting(
        "archive",
        "folder",
        "",
        "Where a tick archives what it removes; the folder must be there. `none`: removed sessions are kept nowhere."
        " Needed where `retention` is set.",
    )
    keep_keys_s: Annotated[float, read.duration("1h", "3650d")] = _setting(
        "keep_keys",
        "duration",
        604_800.0,
        "How long submit keys are known after their sessions were removed, 1h to 3650d: the same submit, sent again"
        " by then, opens nothing.",
    )
    modules: Annotated[list[str], BeforeValidator(read.name_list)] = _setting(
        "modules",
        "list",
        [],
        "Python modules with agents and tools, for `up` and `worker`: dotted names, or paths of `.py` files.",
    )
    plans: Annotated[list[str], BeforeValidator(read.name_list)] = _setting(
        "plans", "list", [], "Plan files that `up` registers when it starts."
    )
    health_file: Annotated[str, BeforeValidator(read.text)] = _setting(
        "health_file",
        "path",
        "",
        "Where `worker`, `tick` and `up` write once a second whether they hear their transport and their store; each"
        " process needs a file of its own. `passdown health FILE` reads it. Empty: nowhere.",
    )
    log_level: Annotated[str, read.choice("debug", "info", "warning", "error")] = _setting(
        "log_level", "word", "info", "The least that is logged: `debug`, `info`, `warning` or `error`."
    )
    log_format: Annotated[str, read.choice("console", "json")] = _setting(
        "log_format", "word", "console", "How logs look: `console` for people, `json` for machines."
    )

    @property
    def claim_by_ms(self) -> int:
        """`claim_by` in milliseconds."""
        return int(self.claim_by_s * 1000)

    @property
    def tick_every_ms(self) -> int:
        """`tick_every` in milliseconds."""
        return int(self.tick_every_s * 1000)


class Row(NamedTuple):
    """One setting: ``field`` is the attribute of `Settings`, ``kind`` its type in a word or two."""

    name: str
    field: str
    env: str
    kind: str
    default: Any
    meaning: str


class Loaded(NamedTuple):
    """Settings, and by name where each came from: a flag, a variable, a file, or ``default``."""

    settings: Settings
    origins: dict[str, str]


def _row(field: str, info: FieldInfo) -> Row:
    name = info.alias or field
    return Row(name, field, env_name(name), info.title or "", info.default, info.description or "")


def env_name(name: str) -> str:
    """Return the environment variable of a setting: ``limits.task`` is ``PASSDOWN_LIMITS_TASK``."""
    return PREFIX + name.upper().replace(".", "_")


ROWS: dict[str, Row] = {
    row.name: row for row in (_row(field, info) for field, info in Settings.model_fields.items())
}


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    config: Path | str | None = None,
) -> Loaded:
    """Return the settings and where each came from.

    `flags` are by name; `config` is read in place of a ``passdown.toml`` in the working directory, and
    must be there. A variable that is empty counts as not set. Relative paths in a file are relative to
    its folder. Raises ContractError, which names the setting, its origin, what was expected and what came.
    """
    path = Path(config or CONFIG_FILE)
    variables = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    origins = dict.fromkeys(ROWS, "default")

    def lay(layer: Mapping[str, Any], origin: str = "") -> None:
        values.update(layer)
        origins.update({name: origin or env_name(name) for name in layer})

    if config is not None or path.exists():
        lay(_from_file(path), str(path))
    lay({row.name: variables[row.env] for row in ROWS.values() if variables.get(row.env)})
    lay(_known(flags or {}, "--set"), "flag")
    try:
        return Loaded(Settings.model_validate(values), origins)
    except ValidationError as error:
        raise _refused(error, origins) from None


def _refused(error: ValidationError, origins: Mapping[str, str]) -> ContractError:
    found = error.errors(include_url=False)
    said = [(str(one["loc"][0]), one["msg"].removeprefix("Value error, ")) for one in found]
    (name, problem), *others = said
    rest = f" (and {'; '.join(f'{other}: {what}' for other, what in others)})" if others else ""
    return ContractError(f"setting {name} ({origins.get(name, 'default')})", problem + rest)


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that look like settings and are none, with what to do about each."""
    known = [row.env for row in ROWS.values()]
    return {
        name: closest(name, known)
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in known
    }


def _from_file(path: Path) -> dict[str, Any]:
    what = one_line(str(path))
    try:
        data = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ContractError(what, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ContractError(what, f"not TOML: {one_line(str(error))}") from error
    known = _known(_flat(data), what)
    return {name: _beside(path.parent, name, value) for name, value in known.items()}


def _flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """Write ``[limits]`` with its keys as ``limits.task``; what is no table there stays as it is."""
    flat = {key: value for key, value in data.items() if key != "limits" or not isinstance(value, dict)}
    limits = data.get("limits")
    if isinstance(limits, dict):
        flat.update({f"limits.{key}": value for key, value in cast("dict[str, Any]", limits).items()})
    return flat


def _known(values: Mapping[str, Any], what: str) -> dict[str, Any]:
    for name in values:
        if name not in ROWS:
            raise ContractError(what, f"there is no setting {show(name)}; {closest(name, ROWS)}")
    return dict(values)


def _beside(folder: Path, name: str, value: Any) -> Any:
    """Make what a file in another folder says about paths relative to that folder."""
    if folder == Path():
        return value
    if name == "archive" and isinstance(value, str) and value not in ("", NO_ARCHIVE):
        return str(folder / value)
    if name in ("health_file", "token_file") and value:
        return str(folder / str(value))
    if isinstance(value, list):
        return [_path_beside(folder, name, one) for one in cast("list[Any]", value)]
    for scheme in ("sqlite:///", "filesystem://"):
        if isinstance(value, str) and name in ("store", "transport") and value.startswith(scheme):
            path = value.removeprefix(scheme)
            return value if path in ("", ":memory:") else f"{scheme}{folder / path}"
    return value


def _path_beside(folder: Path, name: str, value: Any) -> Any:
    is_path = isinstance(value, str) and (name == "plans" or value.endswith(".py"))
    return str(folder / value) if is_path else value


def told(row: Row, settings: Settings) -> str:
    """Return the value of a setting as `shown` does; of a secret only whether it is set."""
    value = getattr(settings, row.field)
    return "(set)" if row.kind == SECRET and value else shown(value)


def shown(value: Any) -> str:
    """Return a value as ``passdown.toml`` would write it, without the quotes."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return spell(value)
        case dict():
            return ", ".join(f"{key} = {one}" for key, one in cast("dict[str, Any]", value).items())
        case list():
            return ", ".join(cast("list[str]", value))
        case _:
            return str(value)
