"""Kafka for tests: a real broker where one is installed, else the mock cluster that librdkafka has built in."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
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


def start_broker(folder: Path) -> Broker:
    home = kafka_home()
    return start_mock() if home is None else start_real(home, folder)


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


def start_real(home: Path, folder: Path) -> Broker:
    port, controller = free_port(), free_port()
    config = folder / "server.properties"
    config.write_text(BROKER.format(port=port, controller=controller, folder=folder))
    environment = {**os.environ, "LOG_DIR": str(folder), "KAFKA_HEAP_OPTS": "-Xmx512m"}
    formatting = [home / "bin" / "kafka-storage.sh", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", config]
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
