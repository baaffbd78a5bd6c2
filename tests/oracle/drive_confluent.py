"""Clients of librdkafka, by confluent-kafka: a thread for each job. See `jobs.py` for what this program reads and writes."""

import threading

from confluent_kafka import KafkaError, KafkaException, Producer
from oracle.driving import Load, read_jobs, say

FLUSH_S = 60
QUEUE_RECORDS = 1_000_000


def settings_of(job):
    settings = {
        "bootstrap.servers": job["bootstrap"],
        "client.id": job.get("client_id", "oracle"),
        "compression.type": job["codec"],
        "acks": job["acks"],
        "linger.ms": job["linger_ms"],
        "enable.idempotence": job["idempotent"] == "1",
        "queue.buffering.max.messages": QUEUE_RECORDS,
        "message.timeout.ms": 30_000,
        "retry.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
        "topic.metadata.refresh.interval.ms": 1000,
        "metadata.recovery.strategy": "none",
        "log_level": 0,
    }
    if job["retries"] == "0":
        settings["retries"] = 0
    elif job["idempotent"] == "0" and not job.get("transactional"):
        settings["max.in.flight.requests.per.connection"] = 1
    if job.get("transactional"):
        settings |= {"transactional.id": job["transactional"], "enable.idempotence": True}
    if job.get("ca"):
        settings |= {"security.protocol": "SSL", "ssl.ca.location": job["ca"]}
    if job.get("user"):
        settings |= {
            "security.protocol": "SASL_SSL" if job.get("ca") else "SASL_PLAINTEXT",
            "sasl.mechanism": job["mechanism"],
            "sasl.username": job["user"],
            "sasl.password": job["password"],
        }
    return settings


class Client:
    """One producer and its load."""

    def __init__(self, job, stopped, closed):
        self._job = job
        self._load = Load(job)
        self._stopped, self._closed = stopped, closed
        self._outcomes = []
        self._producer = Producer({**settings_of(job), "error_cb": self._on_error})
        self._fatal = None

    def run(self):
        try:
            self._run()
        except Exception as problem:  # noqa: BLE001  (whatever it is, the driver's caller is to know)
            say(f"{self._load.client} over {type(problem).__name__} {problem}")
        else:
            say(f"{self._load.client} over {self._fatal or 'done'}")
            self._closed.wait()

    def _run(self):
        load = self._load
        if self._job.get("transactional"):
            self._producer.init_transactions(FLUSH_S)
        while not self._stopped.is_set() and load.sent < load.limit and self._fatal is None:
            if self._job.get("transactional"):
                self._transaction()
            else:
                self._burst()
            self._stopped.wait(load.pause_s)

    def _transaction(self):
        load, producer = self._load, self._producer
        producer.begin_transaction()
        say(f"{load.client} begin")
        for _ in range(load.rng.randint(1, 4)):
            self._burst()
        is_aborted = load.rng.random() < 0.3
        try:
            if is_aborted:
                producer.abort_transaction(FLUSH_S)
            else:
                producer.commit_transaction(FLUSH_S)
        except KafkaException as problem:
            if not problem.args[0].txn_requires_abort():
                say(f"{load.client} unsure")
                raise
            producer.abort_transaction(FLUSH_S)
            is_aborted = True
        say(f"{load.client} {'aborted' if is_aborted else 'committed'}")

    def _burst(self):
        producer = self._producer
        for topic, partition, number, value in self._load.burst():
            key = b"%d" % number
            while True:
                try:
                    producer.produce(topic, value, key, partition, self._told)
                    break
                except BufferError:
                    producer.poll(0.05)
                except KafkaException as problem:
                    why = problem.args[0].name()
                    self._outcomes.append((topic, partition, number, None, why))
                    break
        left = producer.flush(FLUSH_S)
        outcomes, self._outcomes = self._outcomes, []
        self._load.tell(outcomes)
        if left:
            self._fatal = f"{left} records were neither acknowledged nor given up in {FLUSH_S} s"

    def _told(self, error, message):
        why = None if error is None else error.name()
        number, offset = int(message.key()), message.offset()
        self._outcomes.append((message.topic(), message.partition(), number, offset, why))

    def _on_error(self, error):
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._fatal = f"{error.name()} {error.str()}"


if __name__ == "__main__":
    jobs, *events = read_jobs()
    threads = [threading.Thread(target=Client(job, *events).run) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
