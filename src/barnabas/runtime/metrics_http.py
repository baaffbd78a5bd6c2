"""Serves the figures at /metrics, on a thread of its own; they are read on the loop's thread."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from typing import TYPE_CHECKING, Any, Final

from barnabas.runtime import metrics_text

if TYPE_CHECKING:
    from barnabas.runtime.assembly import RunningBroker

#: How long a scrape waits for the broker's thread.
ANSWER_S: Final = 5.0

log = logging.getLogger(__name__)


class MetricsServer:
    """An HTTP server for one broker."""

    def __init__(self, broker: RunningBroker, host: str, port: int) -> None:
        """Listen and serve; OSError if the address cannot be had."""
        self._broker = broker
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
        text: Future[str] = Future()
        self._broker.loop.post(lambda: self._render(text))
        try:
            body = text.result(ANSWER_S).encode()
        except FutureTimeoutError:
            request.send_error(503, "the broker did not answer in time")
            return
        request.send_response(200)
        request.send_header("Content-Type", metrics_text.CONTENT_TYPE)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _render(self, text: Future[str]) -> None:
        text.set_result(metrics_text.render(self._broker))

    def close(self) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
