"""Feeding an encoder with frames while an episode runs."""

from __future__ import annotations

from typing import Protocol, cast

from robopro_eval.simulators.tabletop.cameras import CameraRig
from robopro_eval.simulators.tabletop.control import SUBSTEPS
from robopro_eval.simulators.tabletop.world import SUBSTEP

ACTIONS_PER_FRAME = 2
FRAMES_PER_SECOND = 1.0 / (ACTIONS_PER_FRAME * SUBSTEPS * SUBSTEP)
"""12.5: the video then runs as fast as the robot moves."""


class _Pipe(Protocol):
    def write(self, data: bytes, /) -> object: ...

    def close(self) -> object: ...


class _Encoder(Protocol):
    stdin: _Pipe

    def wait(self) -> object: ...


class VideoWriter:
    """Writes raw rgb24 frames (320x240) of one camera into an encoder's `stdin`, if one is attached.

    What `write` raises passes through: whoever attached the encoder decides what a failing one means.
    """

    def __init__(self, camera: str) -> None:
        self.camera = camera
        self._encoder: _Encoder | None = None

    def attach(self, encoder: object) -> None:
        """`encoder` needs `.stdin.write(bytes)`; with `.wait()` it may be a process."""
        self._encoder = cast(_Encoder, encoder)

    def detach(self) -> None:
        """Close the encoder's input and wait for it to finish."""
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            for finish in (getattr(encoder.stdin, "close", None), getattr(encoder, "wait", None)):
                if finish is not None:
                    finish()

    def before_action(self, cameras: CameraRig, number: int) -> None:
        """Called before each action with the number of actions already taken."""
        if number % ACTIONS_PER_FRAME == 0:
            self.final(cameras)

    def final(self, cameras: CameraRig) -> None:
        """Write one frame of the present state."""
        if self._encoder is not None:
            cameras.render((self.camera,))
            self._encoder.stdin.write(cameras.rgb(self.camera).tobytes())
