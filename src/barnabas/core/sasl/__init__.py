"""Logins by SASL: the machines of both sides, without sockets, messages or stores."""
