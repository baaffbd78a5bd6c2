"""Dead letters and the notes of those that were sent back."""

import pytest

from barnabas.cli.dead_letters import Letter, Note, newest_of
from barnabas.cli.record import Record

ID = "aB3-_8xyzQ0123456789_w"


@pytest.mark.parametrize("note", [Note((3, 12), ID), Note((0, 0), None)])
def test_a_note_is_read_as_it_was_written(note):
    assert Note.parse(note.key) == note


def test_notes_from_before_ids_were_noted_are_read():
    assert Note.parse(b"3:12") == Note((3, 12), None)


@pytest.mark.parametrize("key", [None, b"", b"3", b"3:", b"x:1", b"-1:2", b"\xff:1", b":1:id"])
def test_what_is_no_note_is_none(key):
    assert Note.parse(key) is None


def test_a_note_is_about_the_topic_it_names_and_no_later_one_of_that_name():
    assert Note((0, 0), ID).is_about(ID)
    assert not Note((0, 0), ID).is_about("another")
    assert Note((0, 0), None).is_about(ID)
    assert Note((0, 0), ID).is_about(None)


def test_the_newest_letters_are_those_of_the_latest_time_in_whichever_partition():
    def letter(partition, offset, timestamp):
        return Letter.of(Record("a.dlq", partition, offset, timestamp, None, None, b"", ()), ())

    letters = [letter(0, 0, 20), letter(0, 1, 40), letter(1, 0, 10), letter(1, 1, 30)]
    assert [each.place for each in newest_of(letters, 3)] == [(0, 0), (1, 1), (0, 1)]
