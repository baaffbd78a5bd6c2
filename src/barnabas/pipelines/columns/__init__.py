"""Records as Arrow columns and back, a batch at a time and never a record at a time.

The only users of numpy and pyarrow here; nothing in this folder knows Spark.
"""

from barnabas.pipelines.columns.reading import read_columns, record_schema
from barnabas.pipelines.columns.writing import PoisonRow, RowWriter

__all__ = ["PoisonRow", "RowWriter", "read_columns", "record_schema"]
