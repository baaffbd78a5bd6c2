"""An Iceberg table that a stream appends to, each batch once. Knows pyiceberg; only `writer.py` knows Spark."""
