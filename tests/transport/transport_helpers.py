"""What the tests of connections share."""

from __future__ import annotations

import socket
import struct

from robopro_eval.transport import sockets


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of one connection: dialed, accepted."""
    with sockets.listen("127.0.0.1", 0) as listener:
        dialed = sockets.dial(sockets.bound_address(listener), attempts=1)
        accepted, _ = sockets.accept(listener)
        return dialed, accepted


def reset(sock: socket.socket) -> None:
    """Close with a reset, as a process does that dies with unread data."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
