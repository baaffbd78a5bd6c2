"""Tables that a catalog keeps (`CREATE TABLE ... USING barnabas OPTIONS (...)`): how their options reach a reader.

Job: Spark gives a Python source the options of such a table when it asks for the columns, and none when the table is read. So they are kept in what it does give: the
comment of a column. Must not know what options mean. Whoever may see the table sees its comments: secrets are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

#: A table of a catalog has each of its options twice, once with this before it.
PREFIX: Final = "option."
#: What Spark puts among the options of a table.
PROPERTIES: Final = ("owner", "location", "is_managed_location", "external", "comment", "collation", "table_type")  # fmt: skip
#: Told who reads a table that was created with columns of its own, or who writes to one.
WITHOUT_OPTIONS: Final = (
    "there are no options: Spark keeps those of a table only for reading, and only if it was created without a list of columns; "
    "write with df.write, or to a TEMPORARY VIEW with these options"
)
_COLUMN: Final = "topic"
_MARK: Final = "options of the table: "
_SECRETS: Final = ("password", "secret", "jaas", "token", "key.pem")


def remember(columns: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Give the columns, by name, with a comment that has the options, if they are those of a table in a catalog."""
    given = {
        name.lower()[len(PREFIX) :]: value
        for name, value in options.items()
        if name.lower().startswith(PREFIX)
    }
    if not given:
        return dict(columns)
    for name in given:
        if any(secret in name for secret in _SECRETS):
            raise PipelineProblem(
                f"{name} is a secret, and whoever sees a table in a catalog sees its options: use CREATE TEMPORARY VIEW"
            )
    # Neither quotes nor backslashes are left in it, so it can stand in SQL.
    return {**columns, _COLUMN: f"{columns[_COLUMN]} COMMENT '{_MARK}{urlencode(given)}'"}


def recall(options: Mapping[str, str], columns: StructType) -> dict[str, str]:
    """Give the options of a reader: those of its table, if it is one of a catalog, and those of this reading, which win."""
    found = [field for field in columns.fields if field.name == _COLUMN]
    comment = str(found[0].metadata.get("comment", "")) if found else ""
    if not comment.startswith(_MARK):
        return dict(options)
    given = {name.lower(): value for name, value in options.items()}
    return dict(parse_qsl(comment[len(_MARK) :], keep_blank_values=True)) | given
