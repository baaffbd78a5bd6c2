"""The command line tool: what a person types, wired to the parts that do it.

Commands that talk to a broker do so over the wire through confluent-kafka (librdkafka), so they
work against any Kafka. They must not know how a Barnabas broker is built. Modules here import
confluent_kafka and yaml only inside functions: `barnabas --help` and `barnabas up` run without them.
"""

from barnabas.cli.lean_click import import_click

import_click()  # before any command does
