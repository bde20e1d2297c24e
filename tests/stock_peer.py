"""A second, independent implementation of the stock wire, as its public description gives it, flaws included.

It shares no line with `framing` and imports nothing but the standard library and numpy. What it does as the description
says (and ours does better): header and body in two `sendall` calls with Nagle's algorithm on, `recv(4)` for the header,
bodies read 4096 bytes at a time, read-only arrays, `getattr` of any callable, an error reply after which the server
closes the connection, a client that raises RuntimeError.

Both roles, both directions, in threads (`model_server`, `model_dialing`, `SimClient.dial`, `SimClient.listen`) or as
real processes:

    python tests/stock_peer.py model --listen 29761              # prints READY <port>, serves, ends with its first peer
    python tests/stock_peer.py model --dial localhost:29761
    python tests/stock_peer.py sim --dial localhost:29761 --calls 3
    python tests/stock_peer.py sim --listen 0
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


# ---------------------------------------------------------------- bodies
class NumpyEncoder(json.JSONEncoder):
    def default(self, o: Any) -> Any:
        if isinstance(o, np.ndarray):
            data = base64.b64encode(o.tobytes()).decode("utf-8")
            return {"__numpy_array__": True, "data": data, "dtype": str(o.dtype), "shape": o.shape}
        if isinstance(o, np.bool_):
            return bool(o)
        if isinstance(o, np.integer):
            return int(o)
        if isinstance(o, np.floating):
            return float(o)
        return super().default(o)


def stock_dumps(value: Any) -> str:
    return json.dumps(value, cls=NumpyEncoder)


def stock_loads(text: str) -> Any:
    def rebuild(members: dict[str, Any]) -> Any:
        if "__numpy_array__" in members:
            flat = np.frombuffer(base64.b64decode(members["data"]), dtype=members["dtype"])
            return flat.reshape(members["shape"])
        return members

    return json.loads(text, object_hook=rebuild)


# ---------------------------------------------------------------- frames
def send_message(sock: socket.socket, value: Any) -> None:
    body = stock_dumps(value).encode("utf-8")
    sock.sendall(len(body).to_bytes(4, "big"))
    sock.sendall(body)


def receive_message(sock: socket.socket) -> Any:
    """One message; None at end of file."""
    header = sock.recv(4)
    if not header:
        return None
    length = int.from_bytes(header, "big")
    pieces, left = [], length
    while left:
        piece = sock.recv(min(left, 4096))
        if not piece:
            raise ConnectionError("the peer closed in the middle of a message")
        pieces.append(piece)
        left -= len(piece)
    return stock_loads(b"".join(pieces).decode("utf-8"))


# ---------------------------------------------------------------- the model
def serve_connection(sock: socket.socket, model: Any, log: list[str] | None = None) -> None:
    """Answer requests until the peer closes, or until the first error."""
    try:
        while (request := receive_message(sock)) is not None:
            if log is not None:
                log.append(request.get("cmd"))
            method = getattr(model, request.get("cmd"), None)
            obs = request.get("obs")
            try:
                if not callable(method):
                    raise AttributeError(f"No model method named '{request.get('cmd')}'")
                if obs is None:
                    result = method()
                elif isinstance(obs, dict) and "_args" in obs:
                    result = method(*obs["_args"])
                else:
                    result = method(obs)
                send_message(sock, {"res": result})
            except Exception as error:  # any exception at all: reply, then close
                send_message(sock, {"error": str(error), "traceback": traceback.format_exc()})
                return
    finally:
        sock.close()


@contextlib.contextmanager
def model_server(model: Any, log: list[str] | None = None) -> Iterator[int]:
    """MODEL-as-server in threads, one per client; yields its port."""
    listener = socket.socket()
    listener.bind(("localhost", 0))
    listener.listen(1)

    def loop() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_quietly, args=(serve_connection, sock, model, log), daemon=True).start()

    threading.Thread(target=loop, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def model_dialing(model: Any, host: str, port: int, log: list[str] | None = None) -> threading.Thread:
    """MODEL-as-client in a thread: dial with retry, serve, end when the simulator closes."""

    def run() -> None:
        serve_connection(_dial(host, port), model, log)

    thread = threading.Thread(target=_quietly, args=(run,), daemon=True)
    thread.start()
    return thread


def _quietly(function: Callable[..., None], *args: Any) -> None:
    with contextlib.suppress(ConnectionError):
        function(*args)


def _dial(host: str, port: int) -> socket.socket:
    for _ in range(200):
        try:
            return socket.create_connection((host, port), timeout=10)
        except OSError:
            time.sleep(0.05)
    raise ConnectionError(f"nobody listens on {host}:{port}")


# ---------------------------------------------------------------- the simulator
class SimClient:
    """The stock simulator's proxy: any method by name."""

    def __init__(self, sock: socket.socket, timeout: float = 30.0) -> None:
        self.sock = sock
        self.sock.settimeout(timeout)
        self.observation_window: Any = None

    @classmethod
    def dial(cls, host: str, port: int) -> SimClient:
        return cls(_dial(host, port))

    @classmethod
    def listen(cls, listener: socket.socket) -> SimClient:
        sock, _ = listener.accept()
        return cls(sock)

    def call(self, func_name: str | None = None, obs: Any = None) -> Any:
        send_message(self.sock, {"cmd": func_name, "obs": obs})
        reply = receive_message(self.sock)
        if reply is None:
            raise ConnectionError("the model closed the connection")
        if "error" in reply:
            raise RuntimeError(f"model: {reply['error']}\n{reply.get('traceback', '')}")
        return reply["res"]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def method(*args: Any) -> Any:
            if not args:
                result = self.call(func_name=name)
            else:
                result = self.call(func_name=name, obs=args[0] if len(args) == 1 else {"_args": list(args)})
            if name == "update_observation_window":
                self.observation_window = True
            return result

        return method

    def close(self) -> None:
        self.sock.close()


# ---------------------------------------------------------------- a small policy, and the programs
class EchoPolicy:
    """Deterministic, and every reply depends on the calls before it."""

    def __init__(self) -> None:
        self.reset_model()

    def reset_model(self) -> None:
        self.instruction = ""
        self.total = 0
        self.calls = 0

    def set_language(self, instruction: str) -> None:
        self.instruction = instruction

    def update_observation_window(self, rgb: list[Any], proprio: Any, extrinsics: Any, intrinsics: Any) -> None:
        self.calls += 1
        self.total += sum(int(np.asarray(part).sum()) for part in (*rgb, proprio, extrinsics, intrinsics))

    def get_action(self) -> Any:
        seed = self.total + len(self.instruction) + self.calls
        return (np.arange(600, dtype=np.float64).reshape(30, 20) + seed % 997).astype(np.float32)

    def echo(self, value: Any) -> Any:
        return value

    def fail(self) -> None:
        raise ValueError("the policy was asked to fail")


def episode(sim: Any, calls: int) -> list[Any]:
    """What a stock simulator does with the policy, deterministic; the actions it got."""
    pixels = np.arange(240 * 320 * 3, dtype=np.uint32).reshape(240, 320, 3)
    actions = []
    sim.reset_model()
    sim.set_language("put the cup into the box")
    for step in range(calls):
        rgb = [((pixels + step + view) % 251).astype(np.uint8) for view in range(3)]
        sim.update_observation_window(rgb, np.zeros(20), np.zeros((3, 3, 4)), np.zeros((3, 3, 3)))
        actions.append(sim.get_action())
    return actions


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=["model", "sim"])
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--listen", type=int, metavar="PORT")
    way.add_argument("--dial", metavar="HOST:PORT")
    parser.add_argument("--calls", type=int, default=3, help="observations that the simulator sends")
    options = parser.parse_args(argv)
    if options.dial:
        host, _, port = options.dial.rpartition(":")
        sock = _dial(host, int(port))
    else:
        listener = socket.socket()
        listener.bind(("localhost", options.listen))
        listener.listen(1)
        print(f"READY {listener.getsockname()[1]}", flush=True)
        sock, _ = listener.accept()
    if options.role == "model":
        serve_connection(sock, EchoPolicy())
    else:
        sim = SimClient(sock)
        for action in episode(sim, options.calls):
            print(f"ACTION {float(np.asarray(action).sum()):.1f} {np.asarray(action).shape}", flush=True)
        sim.close()
    print("DONE", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
