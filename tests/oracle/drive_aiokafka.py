"""Clients of aiokafka: a task for each job. See `jobs.py` for what this program reads and writes."""

import asyncio
import ssl
from concurrent.futures import ThreadPoolExecutor

from aiokafka import AIOKafkaProducer
from oracle.driving import Load, read_jobs, say

ENOUGH_S = 60


def settings_of(job):
    settings = {
        "bootstrap_servers": job["bootstrap"],
        "client_id": "oracle",
        "compression_type": None if job["codec"] == "none" else job["codec"],
        "acks": job["acks"] if job["acks"] == "all" else int(job["acks"]),
        "linger_ms": int(job["linger_ms"]),
        "enable_idempotence": job["idempotent"] == "1",
        "request_timeout_ms": 30_000,
        "retry_backoff_ms": 50,
        "metadata_max_age_ms": 1000,
    }
    if job.get("transactional"):
        settings |= {"transactional_id": job["transactional"], "enable_idempotence": True}
    if job.get("ca"):
        context = ssl.create_default_context(cafile=job["ca"])
        settings |= {"security_protocol": "SSL", "ssl_context": context}
    if job.get("user"):
        settings |= {
            "security_protocol": "SASL_SSL" if job.get("ca") else "SASL_PLAINTEXT",
            "sasl_mechanism": job["mechanism"],
            "sasl_plain_username": job["user"],
            "sasl_plain_password": job["password"],
        }
    return settings


async def run(job, stopped, closed):
    load = Load(job)
    producer = AIOKafkaProducer(**settings_of(job))
    try:
        await asyncio.wait_for(producer.start(), ENOUGH_S)
        while not stopped.is_set() and load.sent < load.limit:
            if job.get("transactional"):
                await transaction(producer, load)
            else:
                await burst(producer, load)
            await asyncio.sleep(load.pause_s)
    except Exception as problem:  # noqa: BLE001  (whatever it is, the driver's caller is to know)
        say(f"{load.client} over {type(problem).__name__} {problem}")
    else:
        say(f"{load.client} over done")
        await asyncio.get_running_loop().run_in_executor(None, closed.wait)
    await asyncio.wait_for(producer.stop(), ENOUGH_S)


async def transaction(producer, load):
    await producer.begin_transaction()
    say(f"{load.client} begin")
    for _ in range(load.rng.randint(1, 4)):
        await burst(producer, load)
    is_aborted = load.rng.random() < 0.3
    if is_aborted:
        await producer.abort_transaction()
    else:
        await producer.commit_transaction()
    say(f"{load.client} {'aborted' if is_aborted else 'committed'}")


async def burst(producer, load):
    outcomes, waiting = [], []
    for topic, partition, number, value in load.burst():
        try:
            sent = await producer.send(topic, value, partition=partition)
            waiting.append((topic, partition, number, sent))
        except Exception as problem:  # noqa: BLE001  (refused before it was sent)
            outcomes.append((topic, partition, number, None, type(problem).__name__))
    for topic, partition, number, sent in waiting:
        try:
            told = await sent
            outcomes.append((topic, partition, number, told and told.offset, None))
        except Exception as problem:  # noqa: BLE001  (given up)
            outcomes.append((topic, partition, number, None, type(problem).__name__))
    load.tell(outcomes)


async def main():
    jobs, *events = read_jobs()
    waiting = ThreadPoolExecutor(len(jobs))
    asyncio.get_running_loop().set_default_executor(waiting)
    await asyncio.gather(*(run(job, *events) for job in jobs))


if __name__ == "__main__":
    asyncio.run(main())
