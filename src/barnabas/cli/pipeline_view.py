"""What a pipeline does, in words and tables.

One job: rendering a status, as `pipelines/run_state.py` keeps it. Must not know where it comes from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.output import counted, table
from barnabas.pipelines.problem import sentence_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEADINGS: Final = ("FLOW", "STATE", "ROWS", "ROWS/S", "BATCH", "BATCH TIME", "LAG", "LAG TIME", "LAST BATCHES")  # fmt: skip
_DOES: Final = {
    "starting": "starts as process {pid}",
    "running": "runs as process {pid}",
    "stopped": "does not run",
    "failed": "does not run: it ended with an error",
    "died": "does not run: process {pid} ended without being stopped",
}
_BARS: Final = "▁▂▃▄▅▆▇█"
_BARS_SHOWN: Final = 20
_ERROR_LINES: Final = 3


def page(status: Mapping[str, Any]) -> str:
    """The whole status: a line on the run, a line for each flow, and under them what went wrong."""
    head = f"{status['pipeline']} {_DOES[status['state']].format(**status)} ({status['runner']}; {status['updated']})"
    silent = silent_brokers(status["flows"]) if status["running"] else {}
    return "\n".join([head, *silent.values(), *flow_lines(status["flows"])])


def silent_brokers(flows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What to say of brokers that do not answer, by their address."""
    since = {flow["brokers"]: flow["brokers_silent_since"] for flow in flows if flow.get("brokers_silent_since")}  # fmt: skip
    return {each: f"brokers at {each} do not answer since {since[each]}" for each in since}


def flow_lines(flows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of flows, and their last errors."""
    lines = [table(_HEADINGS, [_cells(flow) for flow in flows])] if flows else []
    for flow in flows:
        if flow["last_error"]:
            lines.append(f"\n{flow['name']} ({flow['place']}), {trouble(flow)}:")
            lines += [f"  {line}" for line in error_lines(flow)[:_ERROR_LINES]]
    return lines


def error_lines(flow: Mapping[str, Any]) -> list[str]:
    """What a person is to read of its last error, without the words that Spark puts around a sentence of ours."""
    return sentence_in(flow["last_error"]).splitlines()


def trouble(flow: Mapping[str, Any]) -> str:
    """How often it failed, and when it is tried again."""
    told = f"failed {counted(flow['restarts'], 'time')}"
    wait = flow.get("retry_in_seconds")
    return f"{told}, tried again in {wait:.0f} s" if wait is not None else told


def _cells(flow: Mapping[str, Any]) -> tuple[str, ...]:
    if flow["kind"] == "view":
        computed = f"computed {counted(flow['changes'], 'time')}" if flow["changes"] else "-"
        return (flow["name"], flow["state"], "-", "-", "-", "-", "-", "-", computed)
    return (
        flow["name"],
        flow["state"],
        _number(flow["rows_total"], ",d"),
        _number(flow["rows_per_second"], ",.0f"),
        _number(flow["batch"], "d"),
        "-" if flow["batch_ms"] is None else f"{flow['batch_ms'] / 1000:.2f} s",
        _number(flow["lag"], ",d"),
        "-" if flow["lag_seconds"] is None else f"{flow['lag_seconds']:.1f} s",
        bars(flow["batch_ms_last"]),
    )


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def bars(values: Sequence[int]) -> str:
    """Draw the newest values, the highest as a full bar."""
    shown = list(values)[-_BARS_SHOWN:]
    top = max(shown, default=0) or 1
    return "".join(_BARS[min(len(_BARS) - 1, value * len(_BARS) // (top + 1))] for value in shown)
