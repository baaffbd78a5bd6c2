import json

import pytest

from barnabas.pipelines.postgres.schemas import (
    BadSchema,
    Column,
    Steps,
    check_name,
    defaults_since,
    is_same_table,
    names_now,
    parse_columns,
    plan_steps,
)

ID = Column(1, "id", "bigint", key=True)
NAME = Column(2, "name", "text")


def record(*columns):
    return json.dumps({"columns": list(columns)})


def test_columns_are_read_with_key_and_default():
    text = record(
        {"id": 1, "name": "id", "type": "bigint", "key": True},
        {"id": 2, "name": "stars", "type": "int", "default": 3},
    )
    assert parse_columns(text) == (ID, Column(2, "stars", "int", default=3))
    assert parse_columns(record()) == ()


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "7",
        "{}",
        record({"id": 1, "name": "a"}),
        record({"id": "1", "name": "a", "type": "int", "key": True}),
        record({"id": 1, "name": "a", "type": "int"}),
        record(
            {"id": 1, "name": "a", "type": "int", "key": True},
            {"id": 1, "name": "b", "type": "int"},
        ),
        record(
            {"id": 1, "name": "a", "type": "int", "key": True},
            {"id": 2, "name": "a", "type": "int"},
        ),
        record({"id": 1, "name": "barnabas_position", "type": "int", "key": True}),
    ],
)
def test_what_are_no_columns_is_told(text):
    with pytest.raises(BadSchema):
        parse_columns(text)


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 64, "ü" * 32, "barnabas_staged", 7, None])
def test_names_that_postgresql_would_not_keep(name):
    with pytest.raises(BadSchema):
        check_name(name, "a table")


def test_steps_follow_ids_not_names():
    renamed, other = Column(2, "full_name", "text"), Column(4, "name", "int")
    steps = plan_steps([ID, NAME, Column(3, "age", "int")], [ID, renamed, other])
    assert steps == Steps(drop=("age",), rename=(("name", "full_name"),), add=(other,))
    assert plan_steps([ID, NAME], [ID, Column(2, "name", "int")]) == Steps(
        retype=(("name", "int"),)
    )
    assert plan_steps([ID, NAME], [ID, NAME]) == Steps()


def test_a_table_is_known_by_its_key():
    renamed = Column(1, "number", "bigint", key=True)
    assert is_same_table([ID, NAME], [renamed])
    assert plan_steps([ID], [renamed]).rename == (("id", "number"),)
    assert not is_same_table([ID, NAME], [ID, Column(2, "name", "text", key=True)])
    assert not is_same_table([ID], [Column(9, "id", "bigint", key=True)])
    assert not is_same_table([ID], [])


def test_rows_of_an_old_version_find_their_columns():
    now = [ID, Column(2, "full_name", "text"), Column(4, "stars", "int", default=3)]
    version = [ID, NAME, Column(3, "age", "int")]
    assert names_now(version, now) == {"id": "id", "name": "full_name"}
    assert defaults_since(version, now) == {"stars": 3}
