"""The model's side of one arm: `python -m wire_benchmark.serve KIND PAYLOAD` prints READY and its port, then serves."""

from __future__ import annotations

import socket
import sys


def main(kind: str, payload: str) -> None:
    """Serve one simulator, then end."""
    if kind in ("floor", "stock"):
        from wire_benchmark import servers

        with socket.create_server(("127.0.0.1", 0)) as listener:
            print("READY", listener.getsockname()[1], flush=True)
            if kind == "floor":
                servers.serve_floor(listener, payload)
            else:
                servers.serve_stock(listener)
    else:
        from wire_benchmark import foreign

        foreign.SERVERS[kind](lambda port: print("READY", port, flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
