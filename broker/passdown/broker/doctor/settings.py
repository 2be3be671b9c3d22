"""Settings that are in force, and variables that were meant to be some."""

from collections.abc import Mapping

from passdown.broker.findings import Finding
from passdown.broker.settings import ROWS, Loaded, told, unknown_variables
from passdown.broker.transports.addresses import shown_address

_WHAT = "settings"


def settings_findings(loaded: Loaded, environ: Mapping[str, str]) -> list[Finding]:
    """Return one finding about what is set, and one for each variable that is no setting."""
    said = [
        f"{name} = {shown_address(told(row, loaded.settings))} ({loaded.origins[name]})"
        for name, row in ROWS.items()
        if loaded.origins[name] != "default"
    ]
    found = "; ".join(said) or "all are as they are by default"
    unknown = [
        Finding(
            level="yellow",
            what=_WHAT,
            found=f"{name} is in the environment, and is no setting",
            advice=advice,
        )
        for name, advice in unknown_variables(environ).items()
    ]
    return [Finding(level="green", what=_WHAT, found=found), *unknown]
