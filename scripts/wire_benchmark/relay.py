"""A network between the two programs of an arm: `python -m wire_benchmark.relay PORT MILLISECONDS`.

Listens, connects to PORT on loopback, and passes everything on, each piece MILLISECONDS after it came. Nothing is
limited in rate and nothing is lost: what it adds is the time of the way, which loopback does not have.
"""

from __future__ import annotations

import queue
import socket
import sys
import threading
import time

PIECE = 1 << 20


def carry(source: socket.socket, sink: socket.socket, seconds: float) -> None:
    """Pass on what comes, `seconds` late, until the source ends."""
    pieces: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def deliver() -> None:
        while True:
            due, piece = pieces.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if not piece:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(piece)

    threading.Thread(target=deliver, daemon=True).start()
    while True:
        piece = source.recv(PIECE)
        pieces.put((time.monotonic() + seconds, piece))
        if not piece:
            return


def main(port: int, seconds: float) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"READY {listener.getsockname()[1]}", flush=True)
        near, _ = listener.accept()
    far = socket.create_connection(("127.0.0.1", port))
    for sock in (near, far):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    back = threading.Thread(target=carry, args=(far, near, seconds))
    back.start()
    carry(near, far, seconds)
    back.join()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]) / 1e3)
