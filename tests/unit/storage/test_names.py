import pytest

from barnabas.storage.names import LOG, SNAPSHOT, file_name, offset_of


def test_a_name_has_twenty_digits():
    assert file_name(123, LOG) == "00000000000000000123.log"
    assert offset_of("00000000000000000123.log", LOG) == 123


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000123.index",
        "00000000000000000123.log.deleted",
        "123.log",
        "0000000000000000012x.log",
        "00000000000000000123",
        "\u0660" * 20 + ".log",
        "leader-epoch-checkpoint",
    ],
)
def test_other_names_have_no_offset(name):
    assert offset_of(name, LOG) is None


def test_the_suffix_decides():
    assert offset_of("00000000000000000007.snapshot", SNAPSHOT) == 7
