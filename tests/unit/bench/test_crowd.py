"""The crowd of the benchmark: all of it is connected, and its bytes make requests that are answered, not all at once."""

import socket

from bench import crowd_client

import barnabas


def test_a_crowd_is_connected_and_asks_byte_by_byte():
    with barnabas.Broker() as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        crowd = crowd_client.connect((host, int(port)), 50)
        assert broker._broker.server.connection_count == 50
        one = crowd[1]
        one.setblocking(True)
        for byte in crowd_client.REQUEST:
            one.send(bytes([byte]))
        assert one.recv(4, socket.MSG_WAITALL)
        for each in crowd:
            each.close()


def test_each_of_the_crowd_begins_with_another_part_of_its_request():
    ours, theirs = zip(*(socket.socketpair() for _ in range(20)), strict=True)
    crowd_client.begin(ours)
    size = len(crowd_client.REQUEST)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        one.close()
        assert other.recv(100) == crowd_client.REQUEST[: number % size]
        other.close()
