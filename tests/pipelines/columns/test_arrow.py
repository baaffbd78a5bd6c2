"""Arrays of numbers, texts and spans; and none of them brings pandas in."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from barnabas.pipelines.columns.arrow import binary_array, number_array, text_scalar
from barnabas.pipelines.columns.records import Spans

PROGRAM = """
import sys
import numpy as np
import barnabas.pipelines.tables
from barnabas.pipelines.columns.arrow import binary_array, number_array, text_scalar
from barnabas.pipelines.columns.records import Spans

number_array(np.arange(3))
text_scalar("topic")
binary_array(np.frombuffer(b"ab", np.uint8), Spans(np.array([0, 1]), np.array([1, -1])))
print(sorted({"pandas"} & sys.modules.keys()))
"""


def test_numbers_keep_their_type_also_when_they_lie_apart():
    assert number_array(np.arange(6, dtype=np.int32)[::2]).equals(pa.array([0, 2, 4], pa.int32()))


def test_numbers_are_times_if_they_are_said_to_be():
    kind = pa.timestamp("us", tz="UTC")
    assert number_array(np.array([0, 1_000_000]), kind).equals(pa.array([0, 1_000_000], kind))


@pytest.mark.parametrize("text", ["", "topic", "Größe"])
def test_a_text_is_repeated(text):
    assert pa.repeat(text_scalar(text), 2).equals(pa.array([text, text]))


def test_spans_are_values_and_those_of_negative_length_nulls():
    buffer = np.frombuffer(b"one..two", np.uint8)
    spans = Spans(np.array([0, 3, 5]), np.array([3, -1, 3]))
    assert binary_array(buffer, spans).equals(pa.array([b"one", None, b"two"], pa.binary()))


def test_a_worker_that_reads_does_not_import_pandas():
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert told.stdout == "[]\n", told.stderr
