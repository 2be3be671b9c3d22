"""A TCP proxy that does to a server's connections what networks do: lose replies, reset, go silent, refuse, delay.

::

    with Proxy(server.port) as proxy:
        store = RedisStore(server.url().replace(str(server.port), str(proxy.port)))
        proxy.lose_replies()  # every second one, from now on
        ...
        proxy.pass_on()

Modes are switched at any time, from any thread, and hold for the connections that are open as well.
"""

import asyncio
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, cast

from tests.servers.process import HOST, free_ports
from tests.servers.replies import RedisReplies, Replies


class Proxy:
    """Listens on a loopback port of its own, ``port``, before the server on ``target``."""

    def __init__(self, target: int, replies: type[Replies] = RedisReplies) -> None:
        self.target = target
        self.port = free_ports()
        self.replies = replies
        #: So many replies were lost, and so many connections were made, by now.
        self.lost = 0
        self.connected = 0
        self.every = 0
        self.delay_s = 0.0
        self.silent = False
        self._counted = 0
        self._links: set[_Link] = set()
        #: Both ends of all links, until they are closed: one that has still to write stays open for that.
        self.ends: set[asyncio.Transport] = set()
        self._listening: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._on_loop(self._listen)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- modes --

    def pass_on(self) -> None:
        """Do no harm from now on. Connections that went silent stay so: bytes of theirs are lost."""

        async def switch() -> None:
            self.every, self.delay_s, self.silent = 0, 0.0, False
            await self._listen()

        self._on_loop(switch)

    def lose_replies(self, every: int = 2) -> None:
        """Let the server do it, lose its reply, and close the connection: at each `every`-th piece of work."""

        async def switch() -> None:
            self.every, self._counted = every, 0

        self._on_loop(switch)

    def delay(self, seconds: float) -> None:
        """Hold each reply back for so long."""

        async def switch() -> None:
            self.delay_s = seconds

        self._on_loop(switch)

    def reset(self) -> None:
        """Reset (RST) all connections that are open; new ones are served."""

        async def switch() -> None:
            for link in list(self._links):
                link.reset()

        self._on_loop(switch)

    def silence(self, *, new: bool = True) -> None:
        """Deliver nothing any more, in either direction, and close nothing: neither end can tell.

        Open connections stay silent for good; with `new`, so do those that are made until `pass_on`.
        """

        async def switch() -> None:
            self.silent = new
            for link in self._links:
                link.silent = True

        self._on_loop(switch)

    def refuse(self) -> None:
        """Listen no longer: new connections are refused, those that are open stay."""
        self._on_loop(self._deafen)

    def close(self) -> None:
        """End all connections, and the proxy."""
        if not self._thread.is_alive():
            return
        self.reset()
        self._on_loop(self._deafen)
        self._on_loop(self._round)
        self.reset()  # those that came meanwhile
        self._on_loop(self._idle)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- on the loop --

    def loses(self) -> bool:
        """Count a reply, and say whether this one gets lost."""
        if not self.every:
            return False
        self._counted += 1
        lost = self._counted % self.every == 0
        self.lost += lost
        return lost

    def accepted(self, link: "_Link") -> None:
        """Take note of a new connection."""
        self._links.add(link)
        self.connected += 1

    def gone(self, link: "_Link") -> None:
        """Take note of a connection's end."""
        self._links.discard(link)

    async def _listen(self) -> None:
        if self._listening is None:
            self._listening = await self._loop.create_server(lambda: _Client(_Link(self)), HOST, self.port)

    async def _deafen(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            # What was accepted must have become a connection before its server closes, or asyncio drops it unclosed.
            for one in listening.sockets:
                self._loop.remove_reader(one.fileno())
            await self._round()
            listening.close()
            await listening.wait_closed()

    async def _round(self) -> None:
        """Let what was accepted become a connection: asyncio takes a few rounds to that."""
        for _ in range(5):
            await asyncio.sleep(0)

    async def _idle(self) -> None:
        """Let what was closed be closed: asyncio does that in its next round."""
        for end in list(self.ends):
            end.abort()
        others = asyncio.all_tasks() - {cast("asyncio.Task[object]", asyncio.current_task())}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        # An accepted connection whose task was cancelled is closed in one round, and let go of in the next.
        await self._round()
        for end in list(self.ends):
            end.abort()
        await self._round()

    def _on_loop(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.run_coroutine_threadsafe(act(), self._loop).result(30)


class _Link:
    """A client's connection, and ours to the server on its behalf."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.silent = proxy.silent
        self.client: asyncio.Transport | None = None
        self.server: asyncio.Transport | None = None
        self._replies = proxy.replies(proxy.loses)
        self._early: list[bytes] = []
        self._held: deque[tuple[bytes, bool]] = deque()
        self._connecting: asyncio.Task[None] | None = None

    def opened(self, client: asyncio.Transport) -> None:
        self.client = client
        self.proxy.accepted(self)
        self._connecting = asyncio.get_running_loop().create_task(self._connect(client))

    async def _connect(self, client: asyncio.Transport) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: _Server(self), HOST, self.proxy.target)
        except OSError:
            self.reset()
            return
        if client.is_closing():
            self.reset()

    def reached(self, server: asyncio.Transport) -> None:
        """Pass on what the client has said before there was anybody to hear it.

        (A transport that is paused as soon as it is made reads all the same, up to Python 3.11.2.)
        """
        self.server = server
        early, self._early = self._early, []
        for data in early:
            self.from_client(data)

    def from_client(self, data: bytes) -> None:
        if self.silent:
            return
        if self.server is None:
            self._early.append(data)
            return
        self._replies.sent(data)
        self.server.write(data)

    def from_server(self, data: bytes) -> None:
        if self.silent:
            return
        self._held.append(self._replies.received(data))
        if self.proxy.delay_s or len(self._held) > 1:
            asyncio.get_running_loop().call_later(self.proxy.delay_s, self._deliver)
        else:
            self._deliver()

    def _deliver(self) -> None:
        data, lost = self._held.popleft()
        if self.silent or self.client is None or self.client.is_closing():
            return
        self.client.write(data)
        if lost:
            self.close()

    def close(self) -> None:
        """End both connections in order."""
        for transport in (self.client, self.server):
            if transport is not None:
                transport.close()
        self.proxy.gone(self)

    def closed(self) -> None:
        """End the other side too; of a silent connection neither learns that the other has left."""
        if not self.silent:
            self.close()

    def reset(self) -> None:
        """End both with RST."""
        for transport in (self.client, self.server):
            if transport is not None and not transport.is_closing():
                linger = struct.pack("ii", 1, 0)
                transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                transport.abort()
        self.proxy.gone(self)


class _End(asyncio.Protocol):
    """One end of a link."""

    def __init__(self, link: _Link) -> None:
        self._link = link
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._link.proxy.ends.add(self._transport)
        self._made(self._transport)

    def _made(self, transport: asyncio.Transport) -> None:
        raise NotImplementedError

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._link.proxy.ends.discard(self._transport)
        self._link.closed()


class _Client(_End):
    def _made(self, transport: asyncio.Transport) -> None:
        self._link.opened(transport)

    def data_received(self, data: bytes) -> None:
        self._link.from_client(data)


class _Server(_End):
    def _made(self, transport: asyncio.Transport) -> None:
        self._link.reached(transport)

    def data_received(self, data: bytes) -> None:
        self._link.from_server(data)
