"""Kafka for tests: a real broker where one is installed, else the mock cluster that librdkafka has built in."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

SHARED = Path(__file__).parents[4] / "shared" / "kafka"
START_S = 60.0

MOCK = """
import sys
from confluent_kafka import Producer
cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "replaced", "log_level": 0})
brokers = cluster.list_topics(timeout=10).brokers.values()
print(",".join(f"{each.host}:{each.port}" for each in brokers), flush=True)
sys.stdin.read()
"""
# The mock lets nobody into a group before the session of whoever left it is over, and the first after three
# seconds, which a session has to outlast.
MOCK_SETTINGS = {"session.timeout.ms": "3200", "heartbeat.interval.ms": "500"}
BROKER = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/logs
num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def kafka_home() -> Path | None:
    """Return where a real Kafka is installed, if there is one."""
    for home in (os.environ.get("KAFKA_HOME"), SHARED):
        if home and (Path(home) / "bin" / "kafka-server-start.sh").is_file() and shutil.which("java"):
            return Path(home)
    return None


class Broker:
    """A broker in a process of its own, which can be held still and let go on."""

    def __init__(self, process: subprocess.Popen[str], servers: str, kind: str, settings: dict[str, str]) -> None:
        self._process = process
        self.servers = servers
        self.kind = kind
        self.settings = settings

    def hold(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        self.go_on()
        self._signal(signal.SIGKILL)
        self._process.communicate()

    def _signal(self, number: int) -> None:
        os.killpg(self._process.pid, number)


class LastingBroker:
    """A broker that is killed and started again under the same address.

    A real one has all it had before. The mock cluster forgets everything, topics and positions too, and listens
    elsewhere, which a door in front of it hides.
    """

    def __init__(self, folder: Path) -> None:
        self._home = kafka_home()
        self._folder = folder
        self._ports = free_port(), free_port()
        self._broker = self._start()
        self.kind, self.settings = self._broker.kind, self._broker.settings
        self.forgets = self._home is None
        self._door = Door(port_of(self._broker)) if self.forgets else None
        port = self._ports[0] if self._door is None else self._door.port
        self.servers = f"127.0.0.1:{port}"

    def restart(self, away_s: float = 0.0, while_away: Callable[[], None] = lambda: None) -> None:
        """Kill it as nothing can prepare for and start it again."""
        if self._door is not None:
            self._door.close()
        self._broker.stop()
        while_away()
        time.sleep(away_s)
        self._broker = self._start()
        if self._door is not None:
            self._door.open(port_of(self._broker))

    def stop(self) -> None:
        self._broker.stop()
        if self._door is not None:
            self._door.close()

    def _start(self) -> Broker:
        return start_mock() if self._home is None else start_real(self._home, self._folder, self._ports)


class Door:
    """Passes on what goes to and from a broker, in whose answers it puts its own port for that of the broker."""

    def __init__(self, behind: int) -> None:
        self.port = free_port()
        self.open(behind)

    def open(self, behind: int) -> None:
        self._behind = behind
        self._callers: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._let_in, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        shut(self._listener)
        for caller in self._callers:
            shut(caller)

    def _let_in(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = listener.accept()
                self._callers.append(caller)
                inside = socket.create_connection(("127.0.0.1", self._behind))
                own, other = address(self.port), address(self._behind)
                threading.Thread(target=pass_on, args=(caller, inside, b"", b""), daemon=True).start()
                threading.Thread(target=pass_on, args=(inside, caller, other, own), daemon=True).start()


def pass_on(source: socket.socket, target: socket.socket, old: bytes, new: bytes) -> None:
    """Copy whole messages, which begin with their length, until one side is gone."""
    with contextlib.suppress(OSError), source.makefile("rb") as stream:
        while len(head := stream.read(4)) == 4:
            body = stream.read(int.from_bytes(head))
            target.sendall(head + (body.replace(old, new) if old else body))
    shut(source)
    shut(target)


def address(port: int) -> bytes:
    """Return an address as it is within Kafka's messages."""
    return b"127.0.0.1" + port.to_bytes(4)


def shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def port_of(broker: Broker) -> int:
    return int(broker.servers.rpartition(":")[2])


def start_broker(folder: Path) -> Broker:
    home = kafka_home()
    return start_mock() if home is None else start_real(home, folder, (free_port(), free_port()))


def start_mock() -> Broker:
    process = subprocess.Popen(
        [sys.executable, "-c", MOCK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    return Broker(process, process.stdout.readline().strip(), "librdkafka's mock cluster", MOCK_SETTINGS)


def start_real(home: Path, folder: Path, ports: tuple[int, int]) -> Broker:
    """Start a broker with what it left in the folder, if it was there before."""
    port, controller = ports
    config = folder / "server.properties"
    config.write_text(BROKER.format(port=port, controller=controller, folder=folder))
    environment = {**os.environ, "LOG_DIR": str(folder), "KAFKA_HEAP_OPTS": "-Xmx512m"}
    formatting = [
        home / "bin" / "kafka-storage.sh",
        "format",
        "--ignore-formatted",
        "-t",
        "MkU3OEVBNTcwNTJENDM2Qg",
        "-c",
        config,
    ]
    subprocess.run(formatting, env=environment, check=True, timeout=START_S, capture_output=True)
    with (folder / "broker.log").open("w") as output:
        process = subprocess.Popen(
            [home / "bin" / "kafka-server-start.sh", config],
            env=environment,
            stdout=output,
            stderr=output,
            text=True,
            start_new_session=True,
        )
    until_s = time.monotonic() + START_S
    while not listens(port):
        if process.poll() is not None or time.monotonic() > until_s:
            raise AssertionError((folder / "broker.log").read_text()[-2000:])
        time.sleep(0.2)
    return Broker(process, f"127.0.0.1:{port}", f"the broker in {home}", {})


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0
