"""The command line: `main` is its entry point.

Each command is a thin function in the module of its topic; `root` names them all and loads a module
only when one of its commands is called. What a command shows is first a *view*, plain data made in
`views`, and then printed as JSON or for people.
"""

from passdown.broker.cli.root import main

__all__ = ["main"]
