"""A small upgraded server that is correct, and many that differ from it in one thing each.

`BROKEN` says which lines of the report each of them must fail, and no others. Threads and blocking sockets; the policy
is `policies/echo`.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from framing.errors import EncodeError, PolicyError, ProtocolError
from framing.frames import HEADER, Buffer, encode_frame
from framing.session import BYE, GET, RESET, Ending, Request, ResponderSession
from model_endpoint.dispatcher import Dispatcher
from model_endpoint.loading import find_policy, load_face, load_model

MAX_FRAME = 64 << 20


class Connection:
    """One simulator's: its socket, session and policy."""

    def __init__(self, sock: socket.socket, dispatcher: Dispatcher) -> None:
        self.sock = sock
        self.dispatcher = dispatcher
        self.wire = ResponderSession(dispatcher.features())
        self.episode: str | None = None
        self.failed = False
        self.is_stock = False
        self.requests = 0
        self.cmd = ""


class GoodServer:
    """Correct. Use as a context manager; `port` is where it listens. `patience`: seconds to wait for its replies."""

    patience = 4.0  # ample for a busy machine

    def __init__(self, policy: str = "echo", **usr_args: object) -> None:
        self.face = load_face(find_policy(policy))
        self.model = load_model(self.face, usr_args)
        self.listener = socket.create_server(("localhost", 0))
        self.port: int = self.listener.getsockname()[1]
        self.open: set[socket.socket] = set()
        self.ended = False

    def __enter__(self) -> GoodServer:
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop listening and cut all connections."""
        self.ended = True
        for sock in [self.listener, *self.open]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            if self.ended:
                sock.close()
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.open.add(sock)
            self.start(lambda sock=sock: self.serve_and_close(sock))

    def start(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    def serve_and_close(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self.serve(Connection(sock, self.dispatcher()))
        self.open.discard(sock)
        sock.close()

    def dispatcher(self) -> Dispatcher:
        return Dispatcher(self.face, self.model)

    # ---------------------------------------------------------------- one connection
    def serve(self, conn: Connection) -> None:
        while (body := self.read(conn)) is not None:
            try:
                request = self.understand(conn, body)
            except ProtocolError as error:
                last_word = conn.wire.protocol_error(str(error))
                if last_word is not None:
                    self.send(conn, last_word)
                return
            frame = self.answer(conn, request)
            if frame is not None:
                self.send(conn, frame)
            if conn.wire.ending is Ending.BYE or self.closes_after(conn, request):
                self.linger(conn)
                return

    def read(self, conn: Connection) -> bytearray | None:
        """The next body; None at the end of the stream, or for a length that cannot be."""
        header = self.read_exactly(conn, HEADER.size)
        if header is None:
            return None
        (size,) = HEADER.unpack(header)
        return self.read_exactly(conn, size) if self.is_acceptable(size) else None

    def is_acceptable(self, size: int) -> bool:
        return 0 < size <= MAX_FRAME

    def read_exactly(self, conn: Connection, size: int) -> bytearray | None:
        data = bytearray()
        while len(data) < size:
            piece = conn.sock.recv(size - len(data))
            if not piece:
                return None
            data += piece
        return data

    def understand(self, conn: Connection, body: bytearray) -> Request:
        request = conn.wire.receive(body)
        conn.is_stock = request.is_stock
        conn.requests += 1
        conn.cmd = request.cmd
        return request

    def closes_after(self, conn: Connection, request: Request) -> bool:
        return False

    def linger(self, conn: Connection) -> None:
        """Before a connection that is over is closed."""

    def send(self, conn: Connection, frame: Sequence[Buffer]) -> None:
        conn.sock.sendall(b"".join(frame))

    def answer(self, conn: Connection, request: Request) -> list[Buffer] | None:
        if request.cmd == BYE and not request.is_stock:
            return conn.wire.result(None)
        if (skipped := conn.wire.skipped()) is not None:
            return skipped
        try:
            self.check_episode(conn, request)
            value = self.changed(conn, request, self.do(conn, request))
            return conn.wire.result(value, infer_seconds=self.infer_seconds(), queue_seconds=0.0)
        except PolicyError as error:
            conn.failed = True
            return conn.wire.error(str(error), error.remote_traceback, error.kind or "policy_error")
        except EncodeError as error:
            return conn.wire.error(str(error), None, "cannot_send")

    def infer_seconds(self) -> float:
        return 0.001

    def check_episode(self, conn: Connection, request: Request) -> None:
        if request.cmd == RESET:
            conn.episode = request.episode_id
        elif request.episode_id is not None and request.episode_id != conn.episode:
            raise PolicyError("another episode", kind="stale_episode")

    def do(self, conn: Connection, request: Request) -> object:
        if request.cmd == GET and not request.is_stock:
            return conn.dispatcher.get(str(request.args[0]), length=bool(request.kwargs.get("length")))
        return conn.dispatcher.call(request.cmd, request.args, request.kwargs)

    def changed(self, conn: Connection, request: Request, value: object) -> object:
        """The result as it is sent."""
        return value


# ---------------------------------------------------------------- frames and replies
class LittleEndian(GoodServer):
    def send(self, conn: Connection, frame: Sequence[Buffer]) -> None:
        data = b"".join(frame)
        conn.sock.sendall(data[3::-1] + data[4:])


class AnswersTwice(GoodServer):
    def send(self, conn: Connection, frame: Sequence[Buffer]) -> None:
        super().send(conn, [*frame, *frame])


class RepeatsFirstId(GoodServer):
    def send(self, conn: Connection, frame: Sequence[Buffer]) -> None:
        data = b"".join(frame)
        message = json.loads(data[HEADER.size :])
        if "id" in message:
            message["id"] = 1
        super().send(conn, encode_frame(json.dumps(message).encode()))


class NeverAnswers(GoodServer):
    patience = 0.3  # in vain, and many times over

    def answer(self, conn: Connection, request: Request) -> list[Buffer] | None:
        return None


class ListsPrivateNames(GoodServer):
    def understand(self, conn: Connection, body: bytearray) -> Request:
        features = conn.wire.features
        conn.wire.features = type(features)("echo", features.methods | {"_train"}, features.attributes)
        return super().understand(conn, body)


class ReadsNoJson(GoodServer):
    def send(self, conn: Connection, frame: Sequence[Buffer]) -> None:
        super().send(conn, edited(frame, wire=["binary"]) if b'"wire"' in b"".join(frame) else frame)


class IdsForEverybody(GoodServer):
    def send(self, conn: Connection, frame: Sequence[Buffer]) -> None:
        super().send(conn, edited(frame, id=None) if conn.is_stock else frame)


class HangsOnSplitHeader(GoodServer):
    def read_exactly(self, conn: Connection, size: int) -> bytearray | None:
        if size == HEADER.size:
            header = conn.sock.recv(size)
            if 0 < len(header) < size:
                while conn.sock.recv(65536):  # waits for ever, as far as its peer can see
                    pass
                return None
            return bytearray(header) if header else None
        return super().read_exactly(conn, size)


class ExpectsSmallBodiesWhole(GoodServer):
    def read_exactly(self, conn: Connection, size: int) -> bytearray | None:
        if HEADER.size < size < 4096:
            body = bytearray(conn.sock.recv(size))
            return body if len(body) == size else None
        return super().read_exactly(conn, size)


class DropsWhatItReadAhead(GoodServer):
    def read(self, conn: Connection) -> bytearray | None:
        data = conn.sock.recv(65536, socket.MSG_PEEK)
        if len(data) >= HEADER.size and len(data) > HEADER.size + HEADER.unpack_from(data)[0]:
            whole = conn.sock.recv(65536)
            return bytearray(whole[HEADER.size : HEADER.size + HEADER.unpack_from(whole)[0]])
        return super().read(conn)


class ChokesOnBinary(GoodServer):
    def understand(self, conn: Connection, body: bytearray) -> Request:
        if body[0] == 0xFF and b"__numpy_array__" not in body:
            raise ProtocolError("what is this?")
        return super().understand(conn, body)

    def serve(self, conn: Connection) -> None:
        with contextlib.suppress(Exception):
            super().serve(conn)


class SendsBinaryUnasked(GoodServer):
    def understand(self, conn: Connection, body: bytearray) -> Request:
        return super().understand(conn, bytearray(body.replace(b'"accept": ["json"', b'"accept": ["binary"')))


class RefusesUnknownKeys(GoodServer):
    def understand(self, conn: Connection, body: bytearray) -> Request:
        if b"eval_check_key" in body:
            raise ProtocolError("what is this?")
        return super().understand(conn, body)

    def serve(self, conn: Connection) -> None:
        with contextlib.suppress(Exception):
            super().serve(conn)


class AllowsSmallFramesOnly(GoodServer):
    def is_acceptable(self, size: int) -> bool:
        return 0 < size <= 1 << 20


class IgnoresEmptyFrames(GoodServer):
    def read(self, conn: Connection) -> bytearray | None:
        body = super().read(conn)
        return self.read(conn) if body is not None and not body else body

    def is_acceptable(self, size: int) -> bool:
        return size <= MAX_FRAME


class BelievesAnyLength(GoodServer):
    def is_acceptable(self, size: int) -> bool:
        return size > 0


class IgnoresBadJson(GoodServer):
    def read(self, conn: Connection) -> bytearray | None:
        body = super().read(conn)
        return self.read(conn) if body is not None and self.ignores(body) else body

    def ignores(self, body: bytearray) -> bool:
        return body.startswith(b"{") and not body.endswith(b"}")


class IgnoresLists(IgnoresBadJson):
    def ignores(self, body: bytearray) -> bool:
        return body.startswith(b"[")


# ---------------------------------------------------------------- values
class LosesByteOrder(GoodServer):
    def changed(self, conn: Connection, request: Request, value: object) -> object:
        return mapped(value, array=lambda array: array.astype(array.dtype.newbyteorder("=")))


class WidensComplex(GoodServer):
    def changed(self, conn: Connection, request: Request, value: object) -> object:
        return mapped(value, array=lambda array: array.astype("complex128") if array.dtype.kind == "c" else array)


class SqueezesShapes(GoodServer):
    def changed(self, conn: Connection, request: Request, value: object) -> object:
        return mapped(value, array=lambda array: array.squeeze() if array.ndim > 2 else array)


class NaNBecomesNull(GoodServer):
    def changed(self, conn: Connection, request: Request, value: object) -> object:
        return mapped(value, scalar=lambda one: None if isinstance(one, float) and one != one else one)


class EmptiesBecomeNull(GoodServer):
    def changed(self, conn: Connection, request: Request, value: object) -> object:
        return mapped(value, scalar=lambda one: None if one == "" else one)


class BigNumbersBecomeFloats(GoodServer):
    def changed(self, conn: Connection, request: Request, value: object) -> object:
        return mapped(value, scalar=lambda one: float(one) if isinstance(one, int) and abs(one) > 2**53 else one)


class TruncatesLargeArrays(GoodServer):
    def changed(self, conn: Connection, request: Request, value: object) -> object:
        return mapped(value, array=lambda array: array[: 1 << 20] if array.size > 1 << 20 else array)


class SendsOnce(GoodServer):
    """Loses what the system does not take at once, in replies to small requests."""

    def send(self, conn: Connection, frame: Sequence[Buffer]) -> None:
        data = b"".join(frame)
        if len(data) > 1 << 20 and conn.cmd == "blob":
            conn.sock.send(data[: 1 << 16])
            conn.sock.shutdown(socket.SHUT_RDWR)
        else:
            super().send(conn, frame)


class SpreadsNoArguments(GoodServer):
    def do(self, conn: Connection, request: Request) -> object:
        if len(request.args) > 1:
            request = Request(request.cmd, (list(request.args),), request.kwargs, request.id)
        return super().do(conn, request)


class DropsKeywords(GoodServer):
    def do(self, conn: Connection, request: Request) -> object:
        kept = request.kwargs if request.cmd == GET else {}
        return super().do(conn, Request(request.cmd, request.args, kept, request.id, episode=request.episode))


class MistakesMarkedDicts(GoodServer):
    def changed(self, conn: Connection, request: Request, value: object) -> object:
        return np.zeros(3, np.uint8) if isinstance(value, dict) and "__numpy_array__" in value else value


class TurnsBytesIntoText(GoodServer):
    def changed(self, conn: Connection, request: Request, value: object) -> object:
        return value.decode("latin-1") if isinstance(value, bytes) else value


# ---------------------------------------------------------------- sessions
class AnswersAnyId(GoodServer):
    def understand(self, conn: Connection, body: bytearray) -> Request:
        expected = b'"id": %d, "accept"' % (conn.requests + 1)
        return super().understand(conn, bytearray(re.sub(rb'"id": \d+, "accept"', expected, body)))


class CallsWhatFollowsFailure(GoodServer):
    def understand(self, conn: Connection, body: bytearray) -> Request:
        return super().understand(conn, bytearray(re.sub(rb', "follows": \d+', b"", body)))


class ServesStaleEpisodes(GoodServer):
    def check_episode(self, conn: Connection, request: Request) -> None: ...


class RemembersBeyondReset(GoodServer):
    def do(self, conn: Connection, request: Request) -> object:
        return None if request.cmd == RESET else super().do(conn, request)


class SharesState(GoodServer):
    def __init__(self) -> None:
        super().__init__()
        self.only = Dispatcher(self.face, self.model)

    def dispatcher(self) -> Dispatcher:
        return self.only


class LetsWaitInSilence(GoodServer):
    def __init__(self) -> None:
        super().__init__()
        self.turn = threading.Lock()

    def serve(self, conn: Connection) -> None:
        conn.sock.recv(1, socket.MSG_PEEK)  # its turn begins with its first request
        with self.turn:
            super().serve(conn)


class StaysOpenAfterGoodbye(GoodServer):
    def linger(self, conn: Connection) -> None:
        while conn.sock.recv(100):
            pass


class TellsNegativeTimes(GoodServer):
    def infer_seconds(self) -> float:
        return -0.5


class RefusesAttributes(GoodServer):
    def do(self, conn: Connection, request: Request) -> object:
        if request.cmd == GET:
            raise PolicyError("no", kind="unknown_method")
        return super().do(conn, request)


# ---------------------------------------------------------------- errors
class ClosesOnUnknownMethod(GoodServer):
    def closes_after(self, conn: Connection, request: Request) -> bool:
        return conn.failed and request.cmd.startswith("eval_check_no_such")


class EndsOnUnknownMethod(GoodServer):
    def answer(self, conn: Connection, request: Request) -> list[Buffer] | None:
        if request.cmd.startswith("eval_check_no_such") and request.episode_id is None:
            raise OSError("crash")
        return super().answer(conn, request)


class SilentAfterPolicyErrors(GoodServer):
    def answer(self, conn: Connection, request: Request) -> list[Buffer] | None:
        if conn.failed and request.cmd == RESET:
            return None
        frame = super().answer(conn, request)
        conn.failed &= request.cmd == "fail"
        return frame


class HidesTracebacks(GoodServer):
    def send(self, conn: Connection, frame: Sequence[Buffer]) -> None:
        super().send(conn, edited(frame, traceback="") if b'"traceback"' in b"".join(frame) else frame)


class CallsPrivateNames(GoodServer):
    def do(self, conn: Connection, request: Request) -> object:
        if request.cmd.startswith("__") and request.cmd != GET:
            return getattr(self.model, request.cmd)()
        return super().do(conn, request)


class ReadsPrivateData(GoodServer):
    def do(self, conn: Connection, request: Request) -> object:
        if request.cmd == GET and request.args[0] == "__dict__":
            return dict(vars(self.model))
        return super().do(conn, request)


class AcceptsAnyArguments(GoodServer):
    def do(self, conn: Connection, request: Request) -> object:
        return None if request.cmd == "recall" and request.args else super().do(conn, request)


class ClosesOnUnsendable(GoodServer):
    def closes_after(self, conn: Connection, request: Request) -> bool:
        return request.cmd == "unsendable"

    def answer(self, conn: Connection, request: Request) -> list[Buffer] | None:
        return None if request.cmd == "unsendable" else super().answer(conn, request)


# ---------------------------------------------------------------- survival and time
class DiesOnGarbage(GoodServer):
    def is_acceptable(self, size: int) -> bool:
        if size == int.from_bytes(b"\xff\xfe\xfd\xfc", "big"):
            self.end()
        return super().is_acceptable(size)


class DiesOnHttp(GoodServer):
    def is_acceptable(self, size: int) -> bool:
        if size == int.from_bytes(b"GET ", "big"):
            self.end()
        return super().is_acceptable(size)


class DiesOnTls(GoodServer):
    def is_acceptable(self, size: int) -> bool:
        if size == int.from_bytes(b"\x16\x03\x01\x00", "big"):
            self.end()
        return super().is_acceptable(size)


class DiesOfSilence(GoodServer):
    def serve(self, conn: Connection) -> None:
        if conn.sock.recv(1, socket.MSG_PEEK) == b"":
            self.end()
        super().serve(conn)


class DiesOfLostReplies(GoodServer):
    def answer(self, conn: Connection, request: Request) -> list[Buffer] | None:
        if request.id == 1:
            time.sleep(0.05)  # so that a simulator that leaves has left
            if has_left(conn):
                self.end()
        return super().answer(conn, request)


class DiesOfTornFrames(GoodServer):
    def read(self, conn: Connection) -> bytearray | None:
        header = self.read_exactly(conn, HEADER.size)
        if header is None:
            return None
        (size,) = HEADER.unpack(header)
        body = self.read_exactly(conn, size) if self.is_acceptable(size) else None
        if body is None and size < 1000 and self.is_acceptable(size):
            self.end()
        return body


class ServesOneConnectionAtATime(GoodServer):
    def start(self, work: Callable[[], None]) -> None:
        work()


class CutsSlowCalls(GoodServer):
    def closes_after(self, conn: Connection, request: Request) -> bool:
        return request.cmd == "sleep"

    def answer(self, conn: Connection, request: Request) -> list[Buffer] | None:
        return None if request.cmd == "sleep" else super().answer(conn, request)


class SendsLateRepliesToOthers(GoodServer):
    late: object = None

    def changed(self, conn: Connection, request: Request, value: object) -> object:
        if request.cmd == "sleep" and has_left(conn):
            self.late = value
        if request.cmd == "echo" and self.late is not None:
            value, self.late = self.late, None
        return value


def has_left(conn: Connection) -> bool:
    """Whether the simulator has closed its end."""
    conn.sock.setblocking(False)
    try:
        return conn.sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    finally:
        conn.sock.setblocking(True)


def edited(frame: Sequence[Buffer], **changes: object) -> list[Buffer]:
    """A frame with a JSON body, some keys of it changed; a binary one as it is."""
    data = b"".join(frame)
    if data[HEADER.size] == 0xFF:
        return [data]
    return encode_frame(json.dumps(json.loads(data[HEADER.size :]) | changes).encode())


def mapped(
    value: Any, *, array: Callable[[Any], object] = lambda one: one, scalar: Callable[[Any], object] = lambda one: one
) -> object:
    """`value` with its arrays and scalars replaced."""
    if isinstance(value, np.ndarray):
        return array(value)
    if isinstance(value, dict):
        return {key: mapped(item, array=array, scalar=scalar) for key, item in value.items()}
    if isinstance(value, list):
        return [mapped(item, array=array, scalar=scalar) for item in value]
    return scalar(value)


BROKEN: dict[type[GoodServer], set[str]] = {
    LittleEndian: {"reply.first"},
    NeverAnswers: {"reply.first"},
    AnswersTwice: {"reply.one"},
    RepeatsFirstId: {"reply.id"},
    ListsPrivateNames: {"reply.policy"},
    ReadsNoJson: {"reply.formats"},
    IdsForEverybody: {"reply.stock_shape"},
    ExpectsSmallBodiesWhole: {"frame.body_in_pieces"},
    ChokesOnBinary: {"binary.request"},
    SendsBinaryUnasked: {"binary.unasked"},
    RefusesUnknownKeys: {"reply.unknown_words"},
    AllowsSmallFramesOnly: {"frame.big_request", "values.big_array"},
    IgnoresEmptyFrames: {"frame.empty"},
    BelievesAnyLength: {"frame.oversized"},
    IgnoresBadJson: {"frame.bad_json"},
    IgnoresLists: {"frame.no_object"},
    LosesByteOrder: {"values.byte_order"},
    WidensComplex: {"values.dtypes"},
    SqueezesShapes: {"values.shapes"},
    NaNBecomesNull: {"values.odd_numbers"},
    EmptiesBecomeNull: {"values.containers"},
    BigNumbersBecomeFloats: {"values.scalars"},
    TruncatesLargeArrays: {"values.big_array", "values.big_reply"},
    SendsOnce: {"values.big_reply"},
    SpreadsNoArguments: {"values.arguments"},
    DropsKeywords: {"values.keywords"},
    MistakesMarkedDicts: {"values.marked_dict"},
    TurnsBytesIntoText: {"values.bytes"},
    AnswersAnyId: {"session.request_ids"},
    CallsWhatFollowsFailure: {"session.back_to_back"},
    ServesStaleEpisodes: {"session.stale_episode"},
    RemembersBeyondReset: {"session.reset_forgets"},
    SharesState: {"session.two_interleaved"},
    LetsWaitInSilence: {"session.wait_notice"},
    StaysOpenAfterGoodbye: {"session.goodbye"},
    RefusesAttributes: {"session.attributes"},
    TellsNegativeTimes: {"session.timing"},
    ClosesOnUnknownMethod: {"error.connection_survives"},
    EndsOnUnknownMethod: {
        "session.back_to_back",
        "frame.big_request",
        "error.unknown_method",
        "error.connection_survives",
    },
    SilentAfterPolicyErrors: {"error.policy_survives"},
    HidesTracebacks: {"error.policy_raises"},
    AcceptsAnyArguments: {"error.wrong_arguments"},
    CallsPrivateNames: {"error.private_names"},
    ReadsPrivateData: {"error.private_data"},
    ClosesOnUnsendable: {"error.unsendable"},
    DiesOnGarbage: {"survival.garbage"},
    DiesOnHttp: {"survival.http"},
    DiesOnTls: {"survival.tls"},
    DiesOfSilence: {"survival.come_and_go"},
    DiesOfLostReplies: {"survival.after_request"},
    DiesOfTornFrames: {"survival.mid_frame"},
    ServesOneConnectionAtATime: {"session.wait_notice", "survival.silent_peer"},
    CutsSlowCalls: {"time.slow_call", "time.late_reply"},
    SendsLateRepliesToOthers: {"time.late_reply"},
    DropsWhatItReadAhead: {"frame.two_at_once", "session.back_to_back"},
    HangsOnSplitHeader: {"frame.split_header"},
}
"""What each server fails, exactly. Those that keep a check waiting until its deadline stand last."""
