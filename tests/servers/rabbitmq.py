"""A RabbitMQ of the tests' own: Debian's server, with node name, ports, folders and cookie of its own.

It is started without its wrapper, which would become another user, and without epmd, which would stay behind:
the node listens for other nodes on a port that is named at its start. It is ruled by lines on its standard input,
since `rabbitmqctl` is an Erlang of its own that takes seconds to start.
"""

import os
import re
import shutil
import threading
from pathlib import Path
from urllib.parse import quote

import amqp

from tests.servers.process import HOST, ServerProcess, free_ports, missing, wait_until

# What Debian's `rabbitmq-server` calls once it has become the user rabbitmq.
_DEBIAN = "/usr/lib/rabbitmq/bin/rabbitmq-server"

# Reads `NUMBER EXPRESSION.` and prints `answer NUMBER {ok, VALUE}`; ends the node at the end of input.
_LISTEN = """
Ask = fun Ask() ->
    case io:get_line("") of
        Line when is_list(Line) ->
            {Number, Text} = string:take(Line, "0123456789"),
            Answer =
                try
                    {ok, Tokens, _} = erl_scan:string(Text),
                    {ok, Parsed} = erl_parse:parse_exprs(Tokens),
                    {value, Value, _} = erl_eval:exprs(Parsed, []),
                    {ok, Value}
                catch
                    _:Why -> {error, Why}
                end,
            io:format("~nanswer ~s ~0tp~n", [Number, Answer]),
            Ask();
        _ ->
            halt(1)
    end
end,
spawn(Ask).
"""


class RabbitServer(ServerProcess):
    """One node on loopback ports, without plugins, and without alarms for want of memory or disk.

    ``config`` are lines of rabbitmq.conf: ``{"consumer_timeout": 60_000}`` (milliseconds). User and password
    are ``guest``.
    """

    def __init__(self, folder: Path, config: dict[str, str | int] | None = None) -> None:
        self.port = free_ports(2)
        node = f"rabbit-{self.port}@localhost"
        self._write_config(folder, config or {})
        self._asked = 0
        self._one_at_a_time = threading.Lock()
        super().__init__(folder, [_binary(), *self._arguments(node)], self._environment(folder, node))

    def start(self) -> None:
        """Start it, and wait until it answers; see `ServerProcess.start`."""
        super().start()
        # It would start epmd in a minute, and see that none is there.
        said = self.eval("supervisor:terminate_child(rabbit_sup, rabbit_epmd_monitor_sup)")
        assert said == "ok", said

    def url(self, vhost: str = "/") -> str:
        """Return the address of a virtual host, which must exist; `/` is there from the start."""
        return f"amqp://guest:guest@{HOST}:{self.port}/{quote(vhost, safe='')}"

    def new_vhost(self) -> str:
        """Make an empty virtual host, in milliseconds, and return its name."""
        name = f"test-{self._asked}"
        said = self.eval(f'rabbit_vhost:put_vhost(<<"{name}">>, <<>>, <<>>, false, <<"guest">>)')
        assert said == "ok", said
        return name

    def remove_vhost(self, name: str) -> None:
        """Remove a virtual host with all that is in it; its connections are closed."""
        said = self.eval(f'rabbit_vhost:delete(<<"{name}">>, <<"tests">>)')
        assert said == "ok", said

    def sync(self) -> None:
        """Have what the node knows of its queues on its disk, for tests that declare a queue and kill the node at once.

        A quorum queue that is killed within half a second of its birth comes back without a leader, for good,
        and each publish to it is refused after a minute (seen with 3.10.8).
        """
        self.eval("[dets:sync(Table) || Table <- dets:all()]")

    def close_connections(self) -> None:
        """Close all clients' connections, with a reason, as an administrator does."""
        self.eval('rabbit_networking:close_all_connections("closed by the tests")')

    def eval(self, expression: str) -> str:
        """Return the value of an Erlang expression in the node, as Erlang prints it."""
        with self._one_at_a_time:
            self._asked += 1
            said = re.compile(rf"^answer {self._asked} \{{(ok|error),(.*)\}}$", re.MULTILINE)
            stdin = self._living().stdin
            assert stdin is not None
            log = self.folder / "log"
            begins = log.stat().st_size
            stdin.write(f"{self._asked} {expression}.\n".encode())
            stdin.flush()

            def answer() -> re.Match[str] | None:
                with log.open("rb") as lines:
                    lines.seek(begins)
                    return said.search(lines.read().decode(errors="replace"))

            wait_until(answer, lambda: f"an answer to {expression}. It said:\n{self.log()}", 30)
            found = answer()
        assert found is not None
        assert found[1] == "ok", f"{expression}: {found[2]}"
        return found[2]

    def _ready(self) -> bool:
        with amqp.Connection(f"{HOST}:{self.port}", connect_timeout=5):
            return True

    def _arguments(self, node: str) -> list[str]:
        return [
            *("-noshell", "-sname", node, "-setcookie", f"tests-{self.port}"),
            *("-erl_epmd_port", str(self.port + 1)),
            *("-kernel", "inet_dist_use_interface", "{127,0,0,1}"),
            *("-eval", _LISTEN),
        ]

    def _environment(self, folder: Path, node: str) -> dict[str, str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))
        }
        return {
            **inherited,
            "HOME": str(folder),  # where Erlang keeps its cookie
            "ERL_FLAGS": "-start_epmd false",  # also for what the node itself may start
            "RABBITMQ_ALLOW_INPUT": "1",  # makes the script become Erlang, and not its parent
            "RABBITMQ_NODENAME": node,
            "RABBITMQ_DIST_PORT": str(self.port + 1),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_LOGS": "-",
        }

    def _write_config(self, folder: Path, config: dict[str, str | int]) -> None:
        lines: dict[str, str | int] = {
            "listeners.tcp.1": f"{HOST}:{self.port}",
            "disk_free_limit.absolute": "1MB",
            "vm_memory_high_watermark.relative": "0.9",
            "log.console": "true",
            "log.console.level": "info",
            "log.file": "false",
            **config,
        }
        text = "".join(f"{name} = {value}\n" for name, value in lines.items())
        (folder / "rabbitmq.conf").write_text(text)
        (folder / "enabled_plugins").write_text("[].\n")


def _binary() -> str:
    if Path(_DEBIAN).exists():
        return _DEBIAN
    return shutil.which("rabbitmq-server") or missing("rabbitmq-server", "apt install rabbitmq-server")
