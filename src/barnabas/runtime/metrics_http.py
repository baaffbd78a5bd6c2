"""Serves the figures at /metrics, on a thread of its own; they are read on the loop's thread.

The lag of groups may need the disk: the loop starts that, the background reads, and the text of it is written here, so that
neither many groups nor a cold log hold up requests.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.group_lag import GroupLag
from barnabas.model.errors import KafkaError
from barnabas.runtime import metrics_groups, metrics_quotas, metrics_text

if TYPE_CHECKING:
    from barnabas.broker.group_lag import GroupFigures
    from barnabas.core.group.shard import GroupShard
    from barnabas.runtime.assembly import RunningBroker

#: How long a scrape waits for the broker's thread.
ANSWER_S: Final = 5.0

log = logging.getLogger(__name__)


class MetricsServer:
    """An HTTP server for one broker."""

    def __init__(self, broker: RunningBroker, host: str, port: int) -> None:
        """Listen and serve; OSError if the address cannot be had."""
        self._broker = broker
        node = broker.node
        self._group_lag = GroupLag(node.world.background, self._shards, node.replicas.get)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            timeout = ANSWER_S

            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *args: Any) -> None:  # noqa: ANN401
                log.debug("metrics: %s", args)

        class Http(ThreadingHTTPServer):
            address_family = AF_INET6 if ":" in host else AF_INET

        self._http = Http((host, port), Handler)
        self.address = (host, int(self._http.server_address[1]))
        self._thread = threading.Thread(
            target=self._http.serve_forever, name="barnabas-metrics", daemon=True
        )
        self._thread.start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one scrape."""
        if request.path.split("?")[0] != "/metrics":
            request.send_error(404, "metrics are at /metrics")
            return
        figures: Future[tuple[str, list[GroupFigures]]] = Future()
        self._broker.loop.post(lambda: self._collect(figures))
        try:
            text, groups = figures.result(ANSWER_S)
        except FutureTimeoutError:
            request.send_error(503, "the broker did not answer in time")
            return
        body = (text + metrics_groups.render(groups, self._broker.node.cluster_id)).encode()
        request.send_response(200)
        request.send_header("Content-Type", metrics_text.CONTENT_TYPE)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _collect(self, figures: Future[tuple[str, list[GroupFigures]]]) -> None:
        text = metrics_text.render(self._broker) + metrics_quotas.render(self._broker.node)
        self._group_lag.collect(lambda groups: figures.set_result((text, groups)))

    def _shards(self) -> list[GroupShard]:
        """All of them, or none while some are being loaded: half of the groups would look like a loss."""
        try:
            return [hosted.shard for hosted in self._broker.node.coordinators.all_loaded()]
        except KafkaError:
            return []

    def close(self) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
