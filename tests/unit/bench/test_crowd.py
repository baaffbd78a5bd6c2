"""The crowd of the benchmark: all of it is connected, and its bytes make requests that are answered."""

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
