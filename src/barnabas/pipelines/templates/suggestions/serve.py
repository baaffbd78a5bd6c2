"""A tiny look-up service: the compacted topic of suggestions in memory, over HTTP.

python serve.py --bootstrap 127.0.0.1:9092 --port 8080
curl 127.0.0.1:8080/similar/product-3-1

It reads the topic from its start, which compaction keeps short, and follows it: what is in memory can be thrown away at any time.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import click
from confluent_kafka import Consumer, KafkaException, TopicPartition

TOPIC = "suggestions"


class Suggestions:
    """What is similar to each product, as the topic says it now."""

    def __init__(self, bootstrap: str) -> None:
        """Read everything that is there, then go on in the background."""
        self.by_product: dict[str, bytes] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": "suggestions-lookup", "enable.auto.commit": False,
                "isolation.level": "read_committed", "enable.partition.eof": True,
            }
        )  # fmt: skip
        self._is_closed = threading.Event()
        found = self._consumer.list_topics(TOPIC, timeout=30).topics[TOPIC]
        if found.error is not None:
            raise KafkaException(found.error)
        self._behind = set(found.partitions)
        self._consumer.assign([TopicPartition(TOPIC, each, 0) for each in found.partitions])
        while self._behind:
            self._take(1.0)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._is_closed.is_set():
            self._take(0.2)

    def _take(self, patience_s: float) -> None:
        message = self._consumer.poll(patience_s)
        if message is None:
            return
        if message.error() is not None:
            self._behind.discard(message.partition())
        elif message.value() is None:
            self.by_product.pop(message.key().decode(), None)
        else:
            self.by_product[message.key().decode()] = message.value()

    def close(self) -> None:
        """Follow no more."""
        self._is_closed.set()
        self._thread.join()
        self._consumer.close()


def server(suggestions: Suggestions, port: int) -> ThreadingHTTPServer:
    """Answer GET /similar/PRODUCT."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            head, _, product = self.path.partition("/similar/")
            found = suggestions.by_product.get(unquote(product)) if not head and product else None
            body = found or json.dumps({"error": "nothing is known of it"}).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


@click.command(help=__doc__)
@click.option("--bootstrap", default="127.0.0.1:9092", show_default=True, help="Where brokers are.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True)
def main(bootstrap: str, port: int) -> None:
    """Serve until Ctrl-C."""
    try:
        suggestions = Suggestions(bootstrap)
    except KafkaException as problem:
        raise click.ClickException(f"{TOPIC}: {problem.args[0].str()}") from None
    service = server(suggestions, port)
    click.echo(
        f"ready http://127.0.0.1:{service.server_port}/similar/ with {len(suggestions.by_product):,} products"
    )
    try:
        service.serve_forever()
    except KeyboardInterrupt:
        suggestions.close()


if __name__ == "__main__":
    main()
