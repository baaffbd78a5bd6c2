"""A PostgreSQL database kept equal to the changes of a topic. Knows psycopg; only `writer.py` knows Spark."""
