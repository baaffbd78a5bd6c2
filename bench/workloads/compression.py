"""W8: batches that the client compressed, which a broker opens to check them and passes on as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.compression import Codec
from bench import clients
from bench.figures import Figure
from bench.frames import Batch
from bench.plan import Step
from bench.workloads.units import MILLION

if TYPE_CHECKING:
    from bench.plan import Bench

CODECS = {"none": Codec.NONE, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}


def w8(s: float) -> list[Step]:
    """Batches of a hundred records of 1 KB, compressed by the client."""
    figures = [
        Figure(f"w8.{codec}.cpu", f"broker CPU per batch, {codec}", "µs") for codec in CODECS
    ]
    figures += [
        Figure(f"w8.{codec}.of-none", f"… {codec} as a multiple of none", "", False, 1.1, own=True)
        for codec in CODECS
        if codec != "none"
    ]
    return [Step("w8", "compression", tuple(figures), run_w8, 0.5 + 3 * s * 0.7)]


def run_w8(bench: Bench, name: str) -> dict[str, float]:
    """Measure the three codecs one after the other."""
    broker, cpu = bench.broker(name), {}
    with bench.topic(broker, 4) as places:
        for codec in CODECS:
            file = bench.produce_file(places, Batch(100, 1024, CODECS[codec]))
            seconds = bench.scale.seconds * 0.7
            shape = {"produce": file, "connections": 4, "depth": 2, "seconds": seconds}
            with bench.watch(broker, f"w8.{codec}") as watch:
                done = clients.load(bench.tools, broker, "requests", **shape)
            cpu[codec] = watch.cpu_s / done["requests"] * MILLION
    values = {f"w8.{codec}.cpu": used for codec, used in cpu.items()}
    return values | {f"w8.{codec}.of-none": used / cpu["none"] for codec, used in cpu.items()}
