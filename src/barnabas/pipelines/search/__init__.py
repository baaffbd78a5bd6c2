"""A full-text index of log events, written by a streaming query and searched by people while it is written."""
