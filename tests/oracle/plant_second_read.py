"""Planted by its import: a connection is read again before the piece that it sent first is handled, and each piece is taken for the beginning of a frame."""

from barnabas.broker import client_link, inbox
from barnabas.broker.tls_link import TlsLink


class Inbox(inbox.Inbox):
    """One that forgets, once it was asked, that it has a piece, and keeps several."""

    def __init__(self, pool):
        super().__init__(pool)
        self._pieces = []
        self._is_new = False

    def has_piece(self):
        is_new, self._is_new = self._is_new, False
        return is_new

    def receive(self, sock, turn, bytes_max):
        self._is_piece = False
        count = super().receive(sock, turn, bytes_max)
        if self._is_piece:
            self._is_new = True
            self._pieces.append((self._view, self._start, self._end, self._frame))
            self._frame = None
        return count

    def take(self):
        return self._pieces.pop(0)


def on_readable(self):
    """Read, and read on in this turn if there is more."""
    client_link.ClientLink._on_readable(self)
    if self.tls.has_more:
        self._book_read()


client_link.Inbox = Inbox
TlsLink._on_readable = on_readable
