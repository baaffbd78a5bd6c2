"""TLS: 1 KB records written and read over encrypted connections, both brokers with the same key and the same ciphers to choose from."""

from __future__ import annotations

import datetime
import ipaddress
import json
import sys
from typing import TYPE_CHECKING

from bench import clients
from bench.figures import Figure
from bench.plan import Step
from bench.workloads.units import GB

if TYPE_CHECKING:
    from pathlib import Path

    from bench.brokers import Broker
    from bench.plan import Bench

SIZE = 1024
MB = 1e6


def tls(s: float) -> list[Step]:
    """Write, then read, on a broker of their own that has been written to and read from before."""
    figures = (
        Figure("tls.produce", "produce 1 KB over TLS, acks all", "MB/s", True, 1.0),
        Figure("tls.produce-cpu", "broker CPU, produce over TLS", "s/GB", False, 1.0),
        Figure("tls.consume", "consume 1 KB over TLS", "MB/s", True, 1.0),
        Figure("tls.consume-cpu", "broker CPU, consume over TLS", "s/GB", False, 1.0),
    )
    return [Step("tls", "1 KB over TLS", figures, run, 20 + 4 * s)]


def run(bench: Bench, name: str) -> dict[str, float]:
    """Measure the second round; the first warms up."""
    with bench.fresh(name) as broker:
        broker.home.parent.mkdir(parents=True, exist_ok=True)
        keys = broker.home.parent / "tls.pem"
        if not keys.exists():
            write_key(keys)
        broker.add_tls(keys)
        broker.start()
        one_round(bench, broker, keys)
        values = one_round(bench, broker, keys)
    broker.wipe()
    return values


def one_round(bench: Bench, broker: Broker, keys: Path) -> dict[str, float]:
    """Write and read all records."""
    records = bench.scale.records_1k
    payload = records * SIZE
    values = {}
    with bench.topic(broker, 1) as places:
        for kind in ("produce", "consume"):
            command = [
                sys.executable,
                "-m",
                "bench.tls_client",
                kind,
                f"127.0.0.1:{broker.tls_port}",
            ]
            command += [str(keys), places[0].topic, str(records), str(SIZE)]
            with bench.watch(broker, f"tls.{kind}") as watch:
                done = json.loads(clients.run(command))
            values[f"tls.{kind}"] = payload / MB / done["seconds"]
            values[f"tls.{kind}-cpu"] = watch.cpu_s / payload * GB
    return values


def write_key(path: Path) -> None:
    """Make a key and a certificate for 127.0.0.1 that vouches for itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bench")])
    now = datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=7))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(here, critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(secret + certificate.public_bytes(encoding))
