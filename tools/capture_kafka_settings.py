"""Write down the names, types, defaults and bounds of Apache Kafka's settings.

    python tools/capture_kafka_settings.py LIB > tests/compat/data/kafka-4.3.1-settings.json

LIB is a directory with the jars of a Kafka broker of that version. Needs Java 17 or later.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("KafkaSettings.java")


def capture(lib: Path) -> str:
    """Run the Java part against the jars in a directory; give its JSON."""
    command = ["java", "-cp", f"{lib}/*", str(SOURCE)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(capture(Path(sys.argv[1])), end="")
