"""A network between ranks that can be slow, stall or break, without the rights of root.

Example: rank 1 is about to connect to rank 0, which listens on port 40001.

    rank 0   publishes 127.0.0.1:40001 in the store, as Gloo does
    rank 1   reads it through `RoutedStore`, which asks the proxy for a way: 127.0.0.1:31488
    rank 1   connects to 31488; the proxy connects to 40001, and passes on what either side sends

The proxy counts what it passes on in chunks. A `Weather` says what happens to them: each one is late, some
are held, and at some the connection breaks. `Tunnel` travels with the job of the ranks: where it is unpacked,
it routes the connections of that process, before the process joins its team.
"""

import asyncio
import json
import re
import socket
import struct
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import final

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from flodl.distributed.team import heartbeat
from flodl.distributed.team import team as team_module

HOST = "127.0.0.1"
RANKS, STORE = "ranks", "store"
# An IPv4 address as Gloo publishes it: family, port, 127.0.0.1.
ADDRESS = re.compile(rb"\x02\x00(..)\x7f\x00\x00\x01\x00{8}", re.DOTALL)
NOW = struct.pack("ii", 1, 0)  # SO_LINGER: a close is a reset


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """What happens to the connections of one kind.

    Attributes:
        delay: seconds by which every chunk is late, each way.
        holds: numbers of the chunks that are held, each with all that follow it on its connection.
        hold_share: the part of the other chunks that is held too, by chance.
        hold: seconds for which a chunk is held.
        breaks: numbers of the chunks at which connections break.
        is_whole: whether all connections break then, or the one of the chunk alone.
        down: seconds after a break in which no connection is accepted.
    """

    delay: float = 0.0
    holds: tuple[int, ...] = ()
    hold_share: float = 0.0
    hold: float = 3.0
    breaks: tuple[int, ...] = ()
    is_whole: bool = False
    down: float = 0.0


@final
class _Line:
    """One connection: a socket to each of its two ends."""

    def __init__(self, kind: str, writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]):
        self.kind = kind
        self.writers = writers

    def close(self, *, is_broken: bool = False) -> None:
        for writer in self.writers:
            if is_broken and not writer.is_closing():
                raw = writer.transport.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW)
                writer.transport.abort()
            else:
                writer.close()


@final
class Proxy:
    """A thread through which connections go.

    Args:
        ranks: what happens to the connections between ranks.
        store: what happens to those of the ranks to the store.
        seed: chooses which chunks are held.

    Attributes:
        port: where ranks ask for ways.
        chunks: chunks of each kind that came so far.
        held: those that were held.
        broken: when connections broke, as `time.time()`.
    """

    def __init__(self, *, ranks: Weather = Weather(), store: Weather = Weather(), seed: int = 0):
        self._weathers = {RANKS: ranks, STORE: store}
        self._draw = Random(seed)
        self.chunks: Counter[str] = Counter()
        self.held: Counter[str] = Counter()
        self.broken: list[float] = []
        self._down: dict[str, float] = {}
        self._lines: set[_Line] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: dict[tuple[str, int, int], asyncio.Server] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self.port = 0

    def __enter__(self) -> "Proxy":
        self._thread.start()
        self.port = self._call(self._open())
        return self

    def __exit__(self, *error: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def break_all(self, kind: str) -> None:
        """Break all connections of a kind now."""
        self._call(self._break_all(kind))

    def _call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _open(self) -> int:
        server = await asyncio.start_server(self._answer, HOST, 0)
        self._servers["control", 0, 0] = server
        return server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        for server in self._servers.values():
            server.close()
        for line in list(self._lines):
            line.close(is_broken=True)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def _break_all(self, kind: str) -> None:
        self._break([line for line in self._lines if line.kind == kind], kind)

    def _break(self, lines: list[_Line], kind: str) -> None:
        self.broken.append(time.time())
        self._down[kind] = time.monotonic() + self._weathers[kind].down
        for line in lines:
            line.close(is_broken=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Tell a rank the port of a way."""
        kind, target, below = json.loads(await reader.readline())
        key = (kind, target, below)
        if key not in self._servers:
            self._servers[key] = await self._listen(kind, target, below)
        port = self._servers[key].sockets[0].getsockname()[1]
        writer.write(f"{port}\n".encode())
        await writer.drain()
        writer.close()

    async def _listen(self, kind: str, target: int, below: int) -> asyncio.Server:
        async def accepted(reader, writer):
            task = asyncio.current_task()
            self._tasks.add(task)
            try:
                await self._pass_on(kind, target, reader, writer)
            except asyncio.CancelledError:
                pass  # at the end of the proxy; raised on, asyncio would print it
            finally:
                self._tasks.discard(task)

        if not below:
            return await asyncio.start_server(accepted, HOST, 0)
        free = [port for port in range(1024, 1 << 16) if swapped(port) < below]
        while True:
            try:
                return await asyncio.start_server(accepted, HOST, self._draw.choice(free))
            except OSError:  # taken
                continue

    async def _pass_on(self, kind: str, target: int, reader, writer) -> None:
        if time.monotonic() < self._down.get(kind, 0.0):
            _Line(kind, (writer, writer)).close(is_broken=True)
            return
        try:
            other, onward = await asyncio.open_connection(HOST, target)
        except OSError:
            writer.close()
            return
        line = _Line(kind, (writer, onward))
        self._lines.add(line)
        for each in line.writers:
            raw = each.transport.get_extra_info("socket")
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            ways = ((reader, onward), (other, writer))
            await asyncio.gather(*(self._pump(line, *way) for way in ways))
        except OSError:
            pass
        finally:
            self._lines.discard(line)
            line.close()

    async def _pump(self, line: _Line, reader, writer) -> None:
        """Pass on all chunks of one direction, each when it is due, and then the end."""
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sender = asyncio.create_task(self._send(line, waiting, writer))
        weather, due = self._weathers[line.kind], 0.0
        try:
            data = b"begin"
            while data:
                try:
                    data = await reader.read(1 << 16)
                except OSError:
                    data = b""
                if data:
                    self._count(line)
                due = max(due, self._loop.time() + weather.delay + self._hold(line.kind, data))
                waiting.put_nowait((due, data))
            await sender
        finally:
            sender.cancel()

    def _count(self, line: _Line) -> None:
        weather = self._weathers[line.kind]
        self.chunks[line.kind] += 1
        if self.chunks[line.kind] in weather.breaks:
            hit = [line]
            if weather.is_whole:
                hit = [each for each in self._lines if each.kind == line.kind]
            self._break(hit, line.kind)

    def _hold(self, kind: str, data: bytes) -> float:
        weather = self._weathers[kind]
        if not data or not (
            self.chunks[kind] in weather.holds or self._draw.random() < weather.hold_share
        ):
            return 0.0
        self.held[kind] += 1
        return weather.hold

    async def _send(self, line: _Line, waiting, writer) -> None:
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(due - self._loop.time())
            if not data:
                line.close()
                return
            writer.write(data)
            await writer.drain()


@final
class Tunnel:
    """The way of a process through a proxy; it is laid where this object is unpacked.

    Args:
        proxy: the proxy.
        folder: where each rank writes `regroups-<rank>`, one line for each new generation.
        store: whether the connections to the store go through the proxy too.
    """

    def __init__(self, proxy: Proxy, folder, *, store: bool = False):
        self._settings = (proxy.port, str(folder), store)

    def __reduce__(self):
        return lay_tunnel, self._settings


@final
class LaidTunnel:
    """What a tunnel is in the process of a rank."""


def lay_tunnel(port: int, folder: str, is_store: bool) -> LaidTunnel:
    """Route the connections that this process makes from now on."""

    def routed(prefix: str, store: Store) -> Store:
        kept.append(RoutedStore(PrefixStore(prefix, store), port))
        return kept[-1]

    def reached(host: str, target: int, **settings) -> TCPStore:
        return TCPStore(host, way(port, STORE, target), **settings)

    kept: list[Store] = []  # torch does not keep the Python side of a store
    team_module.PrefixStore = routed
    if is_store:
        team_module.TCPStore = heartbeat.TCPStore = reached
    note_regroups(Path(folder))
    return LaidTunnel()


def note_regroups(folder: Path) -> None:
    """Let a rank write a line for every generation that it enters."""
    require = team_module.Team._require_group

    def noting(self):
        before = self.generation
        group = require(self)
        if self.generation != before:
            line = [self.generation, self.regroup_seconds, list(self.members), time.time()]
            with (folder / f"regroups-{self.rank}").open("a") as file:
                file.write(json.dumps(line) + "\n")
        return group

    team_module.Team._require_group = noting


def regroups(folder: Path) -> dict[int, dict[int, float]]:
    """Return the seconds of each rank, for each generation after the first."""
    found: dict[int, dict[int, float]] = {}
    for path in sorted(Path(folder).glob("regroups-*")):
        for line in path.read_text().splitlines():
            generation, seconds, _, _ = json.loads(line)
            if generation:
                rank = int(path.name.removeprefix("regroups-"))
                found.setdefault(generation, {})[rank] = seconds
    return found


def way(control: int, kind: str, target: int, below: int = 0) -> int:
    """Return the port of a way to a port."""
    with socket.create_connection((HOST, control), 30) as connection:
        connection.sendall(json.dumps([kind, target, below]).encode() + b"\n")
        return int(connection.makefile().readline())


def swapped(port: int) -> int:
    """Return a port as Gloo compares it, without regard to the order of its bytes."""
    return int.from_bytes(port.to_bytes(2, "big"), "little")


@final
class RoutedStore(Store):
    """A store in which the addresses of other ranks lead to a proxy.

    Of two ranks, Gloo lets the one with the greater port connect, and compares ports with their bytes
    swapped. So a way must have a port that is smaller than the own one, and a rank that listens reads
    the address as it is.
    """

    def __init__(self, store: Store, control: int):
        super().__init__()
        self._store = store
        self._control = control
        self._own = 0

    def set(self, key: str, value: bytes) -> None:
        self._own = port_in(value)
        self._store.set(key, value)

    def get(self, key: str) -> bytes:
        value = self._store.get(key)
        port = port_in(value)
        if swapped(port) >= swapped(self._own):
            return value
        routed = way(self._control, RANKS, port, swapped(self._own)).to_bytes(2, "big")
        return value.replace(port.to_bytes(2, "big") + b"\x7f", routed + b"\x7f", 1)

    def wait(self, keys: list[str], *timeout) -> None:
        self._store.wait(keys, *timeout)


def port_in(value: bytes) -> int:
    """Return the port of the address that a rank publishes."""
    (found,) = ADDRESS.findall(value)
    return int.from_bytes(found, "big")
