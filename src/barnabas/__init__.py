"""Barnabas: a durable, replicated commit log that speaks the Kafka wire protocol."""

__version__ = "0.1.0"
