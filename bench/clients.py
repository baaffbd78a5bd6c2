"""The clients as commands, and what they print as numbers. A client that fails or reports a lost record is an error.

Every client is waited for with a limit; those that run beside another are stopped by their pid.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.brokers import Broker, class_path, java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.build import Tools

LIMIT_S = 900
WARM_LONGEST_S = 20.0
"""A broker that hardly answers is measured as it is."""
PRODUCED = re.compile(
    r"(\d+) delivered \(offset -?\d+, (\d+) failed\) in (\d+)ms: \d+ msgs/s and ([\d.]+) MB/s"
)
CONSUMED = re.compile(
    r"% (\d+) messages \((\d+) bytes\) consumed in (\d+)ms: \d+ msgs/s \(([\d.]+) MB/s\)"
)
JAVA_PRODUCED = re.compile(r"^(\d+) records sent, [\d.,]+ records/sec \(([\d.]+) MB/sec\)")
MIB = 2**20


class ClientFailed(Exception):
    """A client did not do what it was asked to."""


class Throughput(NamedTuple):
    """What a client reported: records, payload bytes and 10^6 bytes a second."""

    records: int
    payload: int
    mb_s: float


class Sending(NamedTuple):
    """How rdkafka_performance produces; batch size and linger are librdkafka's own where they are None."""

    records: int
    size: int
    acks: int = -1
    batch_size: int | None = 131072
    linger_ms: int | None = 1
    rate: int = 0


def run(command: list[str], limit_s: float = LIMIT_S) -> str:
    """Run a client to its end and give what it printed."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise ClientFailed(f"{command[0]} took longer than {limit_s:.0f} s") from error
    if done.returncode:
        raise ClientFailed(f"{' '.join(command)}: {(done.stdout + done.stderr).strip()[-600:]}")
    return done.stdout


@contextmanager
def beside(command: list[str], *, brief: bool = False) -> Iterator[subprocess.Popen[str]]:
    """Run a client while the block runs, then end it; if it is brief about errors they are kept to be told."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if brief else subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def producing(tools: Tools, broker: Broker, topic: str, how: Sending) -> list[str]:
    """The command of librdkafka's producer."""
    command = [str(tools.rdkafka_performance), "-P", "-b", f"127.0.0.1:{broker.port}", "-t", topic]
    command += ["-s", str(how.size), "-c", str(how.records), "-a", str(how.acks)]
    for name, value in (("linger.ms", how.linger_ms), ("batch.size", how.batch_size)):
        command += [] if value is None else ["-X", f"{name}={value}"]
    return command + (["-r", str(how.rate)] if how.rate else [])


def produce(tools: Tools, broker: Broker, topic: str, how: Sending) -> Throughput:
    """Produce with librdkafka as fast as it goes."""
    return parse_produced(run(producing(tools, broker, topic, how)), how)


def parse_produced(text: str, how: Sending) -> Throughput:
    """Read the last line of rdkafka_performance -P; every record must be delivered."""
    found = PRODUCED.findall(text)
    if not found:
        raise ClientFailed(f"rdkafka_performance said no result: {text[-300:]}")
    delivered, failed, _ms, mb_s = found[-1]
    if int(delivered) != how.records or int(failed):
        raise ClientFailed(f"{delivered} of {how.records} records delivered, {failed} failed")
    return Throughput(how.records, how.records * how.size, float(mb_s))


def consume(tools: Tools, broker: Broker, topic: str, partitions: int, count: int) -> Throughput:
    """Read so many records from the beginning with librdkafka, partitions assigned; it reads committed ones only."""
    return parse_consumed(run(consuming(tools, broker, topic, partitions, count)), count)


def consuming(tools: Tools, broker: Broker, topic: str, partitions: int, count: int) -> list[str]:
    """The command of librdkafka's consumer, from the beginning."""
    command = [str(tools.rdkafka_performance), "-C", "-b", f"127.0.0.1:{broker.port}", "-t", topic]
    for partition in range(partitions):
        command += ["-p", str(partition)]
    return [*command, "-o", "beginning", "-c", str(count)]


def parse_consumed(text: str, count: int) -> Throughput:
    """Read the last line of rdkafka_performance -C."""
    found = CONSUMED.findall(text)
    if not found:
        raise ClientFailed(f"rdkafka_performance said no result: {text[-300:]}")
    records, payload, _ms, mb_s = found[-1]
    if int(records) < count:
        raise ClientFailed(f"{records} of {count} records read")
    return Throughput(int(records), int(payload), float(mb_s))


def loadgen(tools: Tools, broker: Broker, mode: str, **options: object) -> list[str]:
    """The command of the load generator."""
    return [str(tools.loadgen), mode, "--port", str(broker.port), *flags(options)]


def flags(options: Mapping[str, object]) -> list[str]:
    """Options as arguments; one that is True stands alone, one that is False is left out."""
    words = []
    for name, value in options.items():
        if value is not False:
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


def load(tools: Tools, broker: Broker, mode: str, **options: object) -> dict[str, Any]:
    """Run the load generator and give the object that it prints."""
    result: dict[str, Any] = json.loads(run(loadgen(tools, broker, mode, **options)))
    return result


def all_at_once(commands: Sequence[list[str]]) -> list[dict[str, Any]]:
    """Run several load generators side by side and give the objects that they print."""
    with ExitStack() as stack:
        running = [stack.enter_context(beside(command, brief=True)) for command in commands]
        return [read_result(process) for process in running]


def rdload(
    tools: Tools, broker: Broker, mode: str, topic: str, **options: object
) -> dict[str, Any]:
    """Run one of our producers that are made with librdkafka, and give the object that it prints."""
    command = [str(tools.rdload), mode, "--port", str(broker.port), "--topic", topic]
    result: dict[str, Any] = json.loads(run([*command, *flags(options)]))
    return result


def read_result(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for the line of a load generator that holds its connections open after it."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise ClientFailed(f"the load generator ended without a result: {last_words(process)}")
    result: dict[str, Any] = json.loads(line)
    return result


def last_words(process: subprocess.Popen[str]) -> str:
    """What a client that has ended wrote to stderr."""
    return process.stderr.read().strip()[-600:] if process.stderr else ""


def run_for(process: subprocess.Popen[str], seconds: float) -> dict[str, Any]:
    """Let a load generator that has said that its connections are open send for so long."""
    assert process.stdin is not None
    process.stdin.write(f"{seconds}\n")
    process.stdin.flush()
    return read_result(process)


def warm(process: subprocess.Popen[str], seconds: float, requests: int) -> None:
    """Let it send for so long, and on until so many requests are answered, but not for ever."""
    end = time.monotonic() + WARM_LONGEST_S
    answered = run_for(process, seconds)["requests"]
    while answered < requests and time.monotonic() < end:
        answered += run_for(process, seconds)["requests"]


def java_produce(broker: Broker, topic: str, how: Sending) -> Throughput:
    """Produce with Kafka's own ProducerPerformance."""
    command = [*java(), "-Xmx512M", "-cp", class_path()]
    command += ["org.apache.kafka.tools.ProducerPerformance", "--topic", topic]
    command += ["--num-records", str(how.records), "--record-size", str(how.size)]
    command += ["--throughput", "-1", "--bootstrap-server", f"127.0.0.1:{broker.port}"]
    command += ["--command-property", f"acks={how.acks}"]
    command += [f"linger.ms={how.linger_ms}", f"batch.size={how.batch_size}"]
    return parse_java_produced(run(command), how)


def parse_java_produced(text: str, how: Sending) -> Throughput:
    """Read the last line of ProducerPerformance, whose megabytes are 2^20 bytes."""
    found = [match for line in text.splitlines() if (match := JAVA_PRODUCED.match(line))]
    if not found or int(found[-1][1]) != how.records:
        raise ClientFailed(f"ProducerPerformance: {text[-300:]}")
    return Throughput(how.records, how.records * how.size, float(found[-1][2]) * MIB / 1e6)


def java_consume(broker: Broker, topic: str, count: int) -> Throughput:
    """Read with Kafka's own ConsumerPerformance, which needs consumer groups."""
    command = [*java(), "-Xmx512M", "-cp", class_path()]
    command += ["org.apache.kafka.tools.ConsumerPerformance", "--topic", topic]
    command += ["--bootstrap-server", f"127.0.0.1:{broker.port}"]
    command += ["--num-records", str(count), "--timeout", "60000"]
    return parse_java_consumed(run(command), count)


def parse_java_consumed(text: str, count: int) -> Throughput:
    """Read the table of ConsumerPerformance: megabytes and records, and the rate while fetching."""
    lines = [line.split(", ") for line in text.splitlines() if line.count(", ") >= 9]
    if len(lines) < 2:
        raise ClientFailed(f"ConsumerPerformance: {text[-300:]}")
    row = dict(zip(lines[0], lines[-1], strict=False))
    read = int(float(row["data.consumed.in.nMsg"]))
    if read < count:
        raise ClientFailed(f"{read} of {count} records read")
    payload = int(float(row["data.consumed.in.MB"]) * MIB)
    return Throughput(read, payload, float(row["fetch.MB.sec"]) * MIB / 1e6)
