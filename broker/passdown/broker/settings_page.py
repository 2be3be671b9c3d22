"""``docs/settings.md``, from the table of settings."""

from passdown.broker.settings import ROWS, Row, shown


def settings_page() -> str:
    """Return ``docs/settings.md``."""
    rows = [
        f"| `{row.name}` | `{row.env}` | {row.kind} | {_default(row)} | {row.meaning} |"
        for row in ROWS.values()
    ]
    table = "\n".join(
        ["| setting | environment | type | default | meaning |", "|---|---|---|---|---|", *rows]
    )
    return _PAGE.replace("TABLE", table)


def _default(row: Row) -> str:
    text = shown(row.default)
    return f"`{text}`" if text else "(empty)"


_PAGE = """\
# Settings

A setting is taken from the first of these that names it:

1. a flag: `--store`, `--transport`, `--as`, and for every setting `--set NAME=VALUE`;
2. an environment variable; one that is empty counts as not set;
3. `passdown.toml` in the working directory, or the file named by `--config`;
4. the default.

`passdown config` shows each with its origin. A setting that a file names and Passdown does not know is an error.

TABLE

* A duration is a number with its unit: `250ms`, `10s`, `5m`, `2h`, `1h30m`. A bare number is refused.
* `0`, negative, huge or missing values are refused when a process starts, unless the table says what they mean.
* In a variable or a flag, lists are separated by commas, and limits are written `cashier=5,desk=2`.
* Relative paths are relative to the working directory; in a file they are relative to its folder.
* `token` is a secret: `passdown config` and `passdown doctor` say only whether it is set. An address may hold a password.

```toml
# passdown.toml
store = "sqlite:///passdown.db"
modules = ["agents.py"]
plans = ["refund.toml"]
concurrency = 16
claim_by = "10s"

[limits]
task = 4

[limits.roles]
cashier = 5
```

This page is generated; a test says how when it is out of date.
"""
