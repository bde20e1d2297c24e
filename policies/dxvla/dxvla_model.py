"""The wrapper: the methods `eval` calls on the model, whether in the same process or over the wire. numpy only.

The network is handed in, so this file knows neither torch nor weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robopro_eval.action_spaces import XVLA_DIM

from .execution import ChunkExecution
from .knobs import Knobs
from .language import encode

# X-VLA's domain id of RoboTwin; the network here has one domain and ignores it.
ROBOTWIN_DOMAIN = 6


class Network(Protocol):
    """What the wrapper needs of a network; `network.TabletopNetwork` behind `network.NumpyNetwork` is one."""

    num_actions: int

    def generate_actions(
        self,
        input_ids: NDArray[np.int64],
        image_input: NDArray[np.uint8],
        image_mask: NDArray[np.bool_],
        domain_id: NDArray[np.int64],
        proprio: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        """`[B, L]`, `[B, V, 3, H, W]` uint8, `[B, V]`, `[B]`, `[B, 20]` -> `[B, num_actions, 20]`."""
        ...


class ObservationWindow(TypedDict):
    """The last observation: V views `[H, W, 3]` uint8 RGB, proprio `[20]`, cameras `[V, 3, 4]` and `[V, 3, 3]`."""

    rgb_list: list[NDArray[np.uint8]]
    proprio: NDArray[np.float32]
    extrinsics: NDArray[np.float32]
    intrinsics: NDArray[np.float32]


class NetworkInput(NamedTuple):
    """What the network takes for one action; the fields are arguments of `Network.generate_actions`, with B = 1."""

    input_ids: NDArray[np.int64]
    image_input: NDArray[np.uint8]
    image_mask: NDArray[np.bool_]
    domain_id: NDArray[np.int64]
    proprio: NDArray[np.float32]


class DXVLA:
    """One policy, one episode at a time: `reset_model`, `set_language`, then window and action in turn.

    `new_session` makes another one over the same network, for an episode that runs at the same time. `get_action` is
    `prepare`, `infer` and `finish`, so that the actions of several sessions can come out of one pass of the network.
    """

    def __init__(
        self, network: Network, knobs: Knobs | None = None, provenance: Mapping[str, object] | None = None
    ) -> None:
        self.knobs = knobs or Knobs()
        self.knobs.check_against(network.num_actions)
        self.num_actions = network.num_actions
        self.exec_actions = self.knobs.exec_actions  # read by the simulator program for its records
        self.provenance = dict(provenance or {})  # likewise: which weights these are, and what was set
        self.observation_window: ObservationWindow | None = None
        self.instruction: str | None = None
        self._network = network
        self._execution = ChunkExecution(self.knobs)

    def new_session(self) -> DXVLA:
        """A window, an instruction and a last commanded row of its own; the network is shared."""
        return DXVLA(self._network, self.knobs, self.provenance)

    def reset_model(self) -> None:
        """Forgets the episode: observation, instruction, last commanded row."""
        self.observation_window = None
        self.instruction = None
        self._execution.reset()

    def set_language(self, instruction: str) -> None:
        """The instruction of the episode, in plain words."""
        self.instruction = str(instruction)

    def update_observation_window(
        self, rgb_list: Sequence[ArrayLike], proprio: ArrayLike, extrinsics: ArrayLike, intrinsics: ArrayLike
    ) -> None:
        """Takes the newest observation.

        Args:
            rgb_list: primary, left wrist and right wrist view, each `[H, W, 3]` uint8 RGB, all of one size.
            proprio: `[20]`, layout `xvla_ee_rot6d_20`, grippers as 1 - 2 * opening.
            extrinsics: `[V, 3, 4]` world to camera, OpenCV axes, in the order of `rgb_list`.
            intrinsics: `[V, 3, 3]` pixels.

        Raises:
            ValueError: a shape or dtype is not as above.
        """
        views = [np.asarray(view) for view in rgb_list]
        if not views or any(v.dtype != np.uint8 or v.ndim != 3 or v.shape[2] != 3 for v in views):
            described = ", ".join(f"{v.dtype}{list(v.shape)}" for v in views) or "none"
            raise ValueError(f"rgb_list: expected [H, W, 3] uint8 views, got {described}")
        if len({v.shape for v in views}) != 1:
            raise ValueError(f"rgb_list: all views must have one size, got {[v.shape for v in views]}")
        state = np.asarray(proprio, dtype=np.float32)
        if state.shape != (XVLA_DIM,):
            raise ValueError(f"proprio: expected {XVLA_DIM} numbers (xvla_ee_rot6d_20), got shape {state.shape}")
        extrinsic = np.asarray(extrinsics, dtype=np.float32)
        intrinsic = np.asarray(intrinsics, dtype=np.float32)
        if extrinsic.shape != (len(views), 3, 4):
            raise ValueError(f"extrinsics: expected shape ({len(views)}, 3, 4), got {extrinsic.shape}")
        if intrinsic.shape != (len(views), 3, 3):
            raise ValueError(f"intrinsics: expected shape ({len(views)}, 3, 3), got {intrinsic.shape}")
        self.observation_window = {
            "rgb_list": views,
            "proprio": self._execution.proprio_for_network(state),
            "extrinsics": extrinsic,
            "intrinsics": intrinsic,
        }

    def get_action(self) -> NDArray[np.float32]:
        """The rows to execute now: `[num_actions, 20]` float32 (fewer with `DXVLA_EXEC_ACTIONS`), smoothed as set.

        Raises:
            RuntimeError: there is no observation or no instruction yet.
        """
        return self.finish(self.infer([self.prepare()])[0])

    def prepare(self) -> NetworkInput:
        """What `infer` takes of this session. Raises as `get_action`."""
        window = self.observation_window
        if window is None:
            raise RuntimeError("get_action was called before update_observation_window")
        if self.instruction is None:
            raise RuntimeError("get_action was called before set_language")
        images = np.stack([view.transpose(2, 0, 1) for view in window["rgb_list"]])[None]
        return NetworkInput(
            input_ids=encode(self.instruction)[None],
            image_input=images,
            image_mask=np.ones(images.shape[:2], dtype=np.bool_),
            domain_id=np.array([ROBOTWIN_DOMAIN]),
            proprio=window["proprio"][None],
        )

    def infer(self, inputs: Sequence[NetworkInput]) -> list[NDArray[np.float32]]:
        """One chunk `[num_actions, 20]` for each of `inputs`, which may be of different sessions.

        In one pass where their pictures have one shape, else one after the other.
        """
        if len({each.image_input.shape for each in inputs}) > 1:
            return [self.infer([each])[0] for each in inputs]
        columns = NetworkInput._make(np.concatenate(column) for column in zip(*inputs, strict=True))
        return list(np.asarray(self._network.generate_actions(**columns._asdict()), dtype=np.float32))

    def finish(self, chunk: NDArray[np.float32]) -> NDArray[np.float32]:
        """The rows to execute of this session's chunk."""
        return self._execution.rows_to_execute(chunk)
