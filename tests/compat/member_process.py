"""One member of a group as a process of its own, so that a test can kill it, stop it, or let it crash at a chosen record.

Argument: a plan in JSON: the client's `settings`, the `topics`, what comes first for each record in `order` ("process" or
"commit"), and optionally the value at which it dies between the two (`crash_at`). Each thing it does is a line of JSON on
standard output. `python -m` is not needed: the test runs this file.
"""

import json
import os
import signal
import sys

from confluent_kafka import Consumer, KafkaException


def say(event, **what):
    sys.stdout.write(json.dumps({"event": event} | what) + "\n")
    sys.stdout.flush()


def main():
    plan = json.loads(sys.argv[1])
    consumer = Consumer(plan["settings"])
    consumer.subscribe(
        plan["topics"],
        on_assign=lambda _, given: say("assigned", partitions=[p.partition for p in given]),
        on_revoke=lambda _, taken: say("revoked", partitions=[p.partition for p in taken]),
        on_lost=lambda _, lost: say("lost", partitions=[p.partition for p in lost]),
    )
    first, second = (process, commit) if plan["order"] == "process" else (commit, process)
    while True:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error():
            say("error", text=str(message.error()))
            continue
        first(consumer, message)
        if message.value().decode() == plan.get("crash_at"):
            os.kill(os.getpid(), signal.SIGKILL)
        second(consumer, message)


def process(_, message):
    say("processed", value=message.value().decode(), partition=message.partition())


def commit(consumer, message):
    try:
        consumer.commit(message, asynchronous=False)
    except KafkaException as refusal:
        say("refused", code=refusal.args[0].code(), name=refusal.args[0].name())


main()
