import pytest

from barnabas.storage.names import LOG, SNAPSHOT, file_name, offset_of, own_name


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


@pytest.mark.parametrize(
    "ending", ["", ".deleted", ".cleaned", ".swap", ".2.deleted", ".17.deleted"]
)
def test_a_name_without_what_says_that_it_does_not_count(ending):
    assert own_name(file_name(5, LOG) + ending) == file_name(5, LOG)
