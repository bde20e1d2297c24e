"""``--record DIR``: the frames of the first episodes, one file each, for ``eval-replay``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from robopro_eval.transport.recording import MAX_RECORDING, RecordingChannel
from sim_endpoint.model_source import EpisodeInfo
from sim_endpoint.remote_model import Channel

MAX_EPISODES = 10
"""Recordings of one ``eval-sim``. One finds the difference between two sides; ten show whether it is always the same;
with `MAX_RECORDING` they fill 5 GiB at most, which an overnight run must not exceed."""

SUFFIX = ".recording"


class Recorder:
    """Puts a :class:`RecordingChannel` before the channel of an episode, as long as there is one to record.

    ``meta`` is what every file says of the run. ``note`` is told, once per file, why a recording stopped early.
    ``earlier`` is how many recordings there may be of processes that this one takes over from.
    """

    def __init__(
        self, folder: Path, meta: Mapping[str, object], note: Callable[[str], None], *, earlier: int = 0
    ) -> None:
        self._folder = folder
        self._meta = dict(meta)
        self._note = note
        self._files = earlier
        self._last: RecordingChannel | None = None

    def begin(self, channel: Channel, info: EpisodeInfo) -> Channel:
        """`channel`, recorded for one episode; the recording that it carried until now is finished."""
        self.finish()
        if isinstance(channel, RecordingChannel):
            channel = channel.channel
        if self._files >= MAX_EPISODES:
            return channel
        self._files += 1
        try:
            path = self._free_name(info)
            self._last = RecordingChannel(channel, path, MAX_RECORDING, meta=self._meta | {"episode": info.as_dict()})
        except OSError as error:
            self._note(f"warning: {self._folder} takes no recording ({error.strerror or error}); the episode goes on")
            return channel
        return self._last

    def finish(self) -> None:
        """End the file of the last episode."""
        last, self._last = self._last, None
        if last is not None:
            last.finish()
            if last.failure is not None:
                self._note(f"warning: {last.failure}")

    def _free_name(self, info: EpisodeInfo) -> Path:
        attempt = info.id.rpartition("#")[2]
        stem = f"{info.task}_seed{info.seed}_attempt{attempt}"
        for count in range(1, 1000):
            path = self._folder / (f"{stem}{SUFFIX}" if count == 1 else f"{stem}_{count}{SUFFIX}")
            if not path.exists():
                return path
        raise FileExistsError(17, "a thousand recordings of this episode are there", str(self._folder))
