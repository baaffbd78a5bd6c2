"""Record what a real client and Apache Kafka say to each other, as golden frames for tests/wire/test_golden.py.

    python tools/capture_frames.py --listen 127.0.0.1:19093 --broker 127.0.0.1:19092 --client NAME -- COMMAND ...

stands between COMMAND, which must use the --listen address, and the broker, which must advertise that same address
(Kafka: advertised.listeners), and ends with COMMAND. Of every API and version that NAME used it keeps one request and
its response in tests/wire/golden/NAME/, as lines of hex without the frame's length. Frames over MAX_BYTES are left out.
"""

import argparse
import asyncio
import struct
import sys
from pathlib import Path

from barnabas.wire.messages.index import APIS

GOLDEN = Path(__file__).parent.parent / "tests" / "wire" / "golden"
MAX_BYTES = 4096
# The fullest frame up to this size shows more than the first one; above it a smaller one is easier to read.
GOOD_BYTES = 1024
LINE_BYTES = 48

Pair = tuple[bytes, bytes | None]


class Capture:
    """The best pair so far for each API and version."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.best: dict[tuple[int, int], Pair] = {}

    def add(self, request: bytes, response: bytes | None) -> None:
        """Keep the pair if it shows more than the one at hand."""
        key = struct.unpack_from(">hh", request)
        if max(len(request), len(response or b"")) > MAX_BYTES:
            return
        kept = self.best.get(key)
        if kept is None or _worth(request, response) > _worth(*kept):
            self.best[key] = (request, response)

    def write(self, folder: Path) -> None:
        """Write every kept frame to its file."""
        folder.mkdir(parents=True, exist_ok=True)
        for (key, version), (request, response) in sorted(self.best.items()):
            name = f"{APIS[key].name}-v{version}"
            (folder / f"{name}-request.hex").write_text(_hex(request))
            if response is not None:
                (folder / f"{name}-response.hex").write_text(_hex(response))


def _worth(request: bytes, response: bytes | None) -> tuple[bool, bool, int]:
    size = len(request) + len(response or b"")
    good = size <= GOOD_BYTES
    return response is not None, good, size if good else -size


def _hex(frame: bytes) -> str:
    lines = [frame[at : at + LINE_BYTES].hex() for at in range(0, len(frame), LINE_BYTES)]
    return "\n".join(lines) + "\n"


async def _read_frame(reader: asyncio.StreamReader) -> bytes | None:
    try:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


class Proxy:
    """Passes whole frames on, and matches responses to requests by connection and correlation id."""

    def __init__(self, broker: tuple[str, int], capture: Capture) -> None:
        """Send everything to `broker` and show every exchange to `capture`."""
        self.broker = broker
        self.capture = capture

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one client connection until either side ends it."""
        broker_reader, broker_writer = await asyncio.open_connection(*self.broker)
        waiting: dict[int, bytes] = {}

        def on_request(frame: bytes) -> None:
            waiting[struct.unpack_from(">i", frame, 4)[0]] = frame

        def on_response(frame: bytes) -> None:
            self.capture.add(waiting.pop(struct.unpack_from(">i", frame)[0]), frame)

        await asyncio.gather(
            self._pass_on(reader, broker_writer, on_request),
            self._pass_on(broker_reader, writer, on_response),
        )
        for unanswered in waiting.values():  # Produce with acks=0, and what the client left behind
            self.capture.add(unanswered, None)

    async def _pass_on(self, reader, writer, seen) -> None:  # noqa: ANN001
        while (frame := await _read_frame(reader)) is not None:
            seen(frame)
            writer.write(struct.pack(">i", len(frame)) + frame)
        writer.close()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


async def _run(options: argparse.Namespace) -> int:
    capture = Capture()
    proxy = Proxy(_address(options.broker), capture)
    server = await asyncio.start_server(proxy.serve, *_address(options.listen))
    async with server:
        process = await asyncio.create_subprocess_exec(*options.command)
        code = await process.wait()
    capture.write(GOLDEN / options.client)
    print(f"{options.client}: {len(capture.best)} APIs and versions")
    return code


def main() -> int:
    """Run the command behind the proxy; its exit code is ours."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--broker", required=True, metavar="HOST:PORT")
    parser.add_argument("--client", required=True, metavar="NAME")
    parser.add_argument("command", nargs="+")
    return asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
