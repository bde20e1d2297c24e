"""The model's side of the arms that need nothing but this repository; `eval-model` itself is started as it is."""

from __future__ import annotations

import socket

import numpy as np
from stock_peer import serve_connection

from wire_benchmark.observations import PAYLOADS, PROPRIO, Array, Chunks, Observation, digest
from wire_benchmark.policy.deploy_policy import BenchmarkPolicy


def serve_floor(listener: socket.socket, payload: str) -> None:
    """Receive into a buffer that exists, add one number to the chunk, send; once, at the beginning, say the digest."""
    template = Observation(PAYLOADS[payload])
    request = np.empty(template.nbytes, np.uint8)
    arrays: dict[str, Array] = {}
    place = 0
    for name, array in template.flat.items():
        arrays[name] = request[place : place + array.nbytes].view(array.dtype).reshape(array.shape)
        place += array.nbytes
    chunks, proprio = Chunks(), arrays[PROPRIO]
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if _receive_into(sock, request):
        sock.sendall(digest(arrays).encode())
    while _receive_into(sock, request):
        sock.sendall(chunks.of(proprio).data)
    sock.close()


def serve_stock(listener: socket.socket) -> None:
    """RoboPRO's own server, from its description."""
    sock, _ = listener.accept()
    serve_connection(sock, BenchmarkPolicy())


def _receive_into(sock: socket.socket, buffer: Array) -> bool:
    """Fill `buffer`; False at the end of the stream."""
    into = buffer.data.cast("B")
    while into:
        count = sock.recv_into(into)
        if not count:
            return False
        into = into[count:]
    return True
