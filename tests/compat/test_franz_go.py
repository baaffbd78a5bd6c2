"""franz-go: the Go client that uses the newest versions of the protocol first. Its scenario is franz/main.go."""

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
