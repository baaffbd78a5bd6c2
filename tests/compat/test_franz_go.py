"""franz-go: the Go client that uses the newest versions of the protocol first. Its scenarios are in franz/."""

import subprocess


def test_scenario(franz, bootstrap, topic_name):
    command = [str(franz), bootstrap, topic_name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "codecs",
        "acks",
        "offsets",
        "empty poll",
        "refusals",
        "administration",
    ]


def test_groups(franz, group_bootstrap, topic_name):
    """Both protocols: kgo's own balancers, and the server's."""
    command = [str(franz), group_bootstrap, topic_name, "groups"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "share-range",
        "share-roundrobin",
        "share-sticky",
        "share-cooperative-sticky",
        "share-uniform",
        "share-server-range",
        "static",
        "pattern-classic",
        "pattern-consumer",
        "admin-classic",
        "admin-consumer",
    ]


def test_transactions(franz, bootstrap, topic_name):
    command = [str(franz), bootstrap, topic_name, "transactions"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == ["endings", "fencing", "describing"]
