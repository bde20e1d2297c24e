"""A policy in this process, for ``--local``: what the socket adds is taken away, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from framing.binary import decode_body, encode_upgraded
from framing.errors import EncodeError, PolicyError
from framing.frames import DEFAULT_MAX_FRAME, FrameDecoder, encode_frame
from framing.session import RESET, Features, Kind
from model_endpoint.dispatcher import Dispatcher
from sim_endpoint.model_source import CallClock, EpisodeInfo


class LocalModel:
    """The policy in this process, in a session of its own where it offers that.

    Every argument and result passes through the codec of the wire between two of ours, so that what arrives is bit for
    bit what would arrive over a socket. ``max_frame`` is the largest message, bytes.
    """

    def __init__(self, dispatcher: Dispatcher, *, max_frame: int = DEFAULT_MAX_FRAME) -> None:
        self.clock = CallClock()
        self.peer = "this process"
        self._dispatcher = dispatcher
        self._max_frame = max_frame
        self._episode: EpisodeInfo | None = None

    @property
    def features(self) -> Features | None:
        return self._dispatcher.features()

    @property
    def fault(self) -> Exception | None:
        return None

    def begin_episode(self, info: EpisodeInfo) -> None:
        self._episode = info
        self.call(RESET)

    def call(self, name: str, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None) -> object:
        def work(arrived: Mapping[str, object]) -> object:
            if name == RESET and self._episode is not None:
                self._dispatcher.begin_episode(self._episode.as_dict())
            return self._dispatcher.call(name, arrived["args"], arrived["kwargs"])  # type: ignore[arg-type]

        return self._exchange({"args": list(args), "kwargs": dict(kwargs or {})}, work, f"what {name}() returned")

    def get(self, path: str, *, length: bool = False) -> object:
        return self._exchange({}, lambda _: self._dispatcher.get(path, length=length), f"the data at {path!r}")

    def settle(self) -> None:
        """Every call here is answered when it returns."""

    def close(self, *, goodbye: bool) -> None:
        """Nothing to part from."""

    def _exchange(
        self, message: Mapping[str, object], work: Callable[[Mapping[str, object]], object], what: str
    ) -> object:
        """What a request and its reply would come to; ``what`` names the reply's value in an error."""
        begun = time.perf_counter()
        infer = 0.0
        try:
            arrived = self._sent(message)
            asked = time.perf_counter()
            try:
                value = work(arrived)
            finally:
                infer = time.perf_counter() - asked
            try:
                return self._sent({"res": value})["res"]
            except EncodeError as error:
                name = self._dispatcher.features().policy_name
                raise PolicyError(f"{name}: {what} cannot be sent: {error}", kind=Kind.CANNOT_SEND) from error
        finally:
            seconds = time.perf_counter() - begun
            self.clock.add(seconds, seconds - infer, {"infer": infer})

    def _sent(self, message: Mapping[str, object]) -> dict[str, object]:
        """What arrives at the other end when ``message`` is sent. Raises EncodeError."""
        decoder = FrameDecoder(max_frame=self._max_frame)
        for piece in encode_frame(encode_upgraded(message, binary=True), max_frame=self._max_frame):
            decoder.feed(piece)
        body = decoder.next_frame()
        assert body is not None
        arrived = decode_body(body)
        assert isinstance(arrived, dict)
        return dict(arrived)
