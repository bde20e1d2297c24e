"""Every way RoboPRO's and RoboTwin's wrappers reach their model, through the dispatcher, here and over a socket.

Each policy below is our own few lines that touch the model as one of those wrappers does. The measure is the policy's
`eval` with the model object itself in its hand, no proxy in between.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import numpy as np
import pytest
import trio
from model_helpers import InPlace

from framing.session import RequesterSession
from model_endpoint.dispatcher import Dispatcher
from model_endpoint.loading import PolicyFace, PolicyLoadError, load_face, load_model
from model_endpoint.policy import Policy
from model_endpoint.sessions import Farewell, Session, Tally
from robopro_eval.transport.aio import TrioChannel
from robopro_eval.transport.blocking import BlockingChannel
from sim_endpoint.local_model import LocalModel
from sim_endpoint.model_client import ModelClient
from sim_endpoint.model_source import EpisodeInfo, ModelSource
from sim_endpoint.remote_model import RemoteModel
from sim_endpoint.settings import Patience

WINDOWED = """
    import numpy as np

    class {cls}:
        def __init__(self, usr_args):
            self.observation_window = None
            {steps}
            self.language = None

        def {language}(self, text):
            self.language = text

        def update_observation_window(self, images, state):
            self.observation_window = {{"images": images, "state": state}}

        def get_action(self):
            seed = sum(int(np.asarray(image).sum()) for image in self.observation_window["images"])
            return np.arange(50 * 14, dtype=np.float32).reshape(50, 14) + seed + len(self.language)

        def {reset}(self):
            self.observation_window = None
            self.language = None

    def get_model(usr_args):
        return {cls}(usr_args)

    def eval(TASK_ENV, model, observation):
        if model.observation_window is None:
            model.{language}(TASK_ENV.get_instruction())
        cameras = observation["observation"]
        state = observation["joint_action"]["left_arm"] + observation["joint_action"]["right_arm"]
        images = [cameras[name]["rgb"] for name in ("head_camera", "right_camera", "left_camera")]
        model.update_observation_window(images, np.array(state))
        for action in model.get_action()[:{bound}]:
            TASK_ENV.take_action(action)
            observation = TASK_ENV.get_obs()
            model.update_observation_window(images, np.array(state))

    {module_reset}
"""

RESET_BY_MODULE = "def reset_model(model):\n        model.{0}()"


def windowed(**parts: str) -> str:
    return WINDOWED.format(**parts)


DICT_POLICY = """
    import numpy as np

    class Net:
        def __init__(self):
            self.seen = 0

        def get_action(self, obs):
            self.seen += 1
            total = sum(float(np.asarray(value).sum()) for value in obs.values() if not isinstance(value, str))
            return np.arange(40 * 14, dtype=np.float64).reshape(40, 14) * 1e-3 + total + self.seen

    def get_model(usr_args):
        return Net()

    def eval(TASK_ENV, model, observation):
        cameras = observation["observation"]
        {obs}
        for action in model.get_action(obs)[:25]:
            TASK_ENV.take_action(action)

    def reset_model(model):
        {reset}
"""

WRAPPERS: dict[str, str] = {
    # float64 pictures; the reset reads one attribute of the model and writes others
    "ACT": """
        import numpy as np

        class ACT:
            def __init__(self):
                self.temporal_agg, self.t, self.all_time_actions = True, 5, None

            def get_action(self, obs):
                self.t += 1
                return np.full((1, 14), obs["head_cam"].mean() + self.t)

        def get_model(usr_args):
            return ACT()

        def eval(TASK_ENV, model, observation):
            picture = np.moveaxis(observation["observation"]["head_camera"]["rgb"], -1, 0) / 255.0
            actions = model.get_action({"head_cam": picture, "qpos": observation["joint_action"]["vector"]})
            for action in actions:
                TASK_ENV.take_action(action)

        def reset_model(model):
            if model.temporal_agg:
                model.all_time_actions = np.zeros((3, 3))
                model.t = 0
    """,
    "DP": """
        import numpy as np

        class DP:
            def __init__(self):
                self.window = []

            def update_obs(self, obs):
                self.window.append(obs["head_cam"].sum())

            def reset_obs(self):
                self.window.clear()

            def get_action(self, obs):
                self.update_obs(obs)
                return np.full((6, 14), sum(self.window))

        def get_model(usr_args):
            return DP()

        def encode(observation):
            return {"head_cam": np.moveaxis(observation["observation"]["head_camera"]["rgb"], -1, 0) / 255}

        def eval(TASK_ENV, model, observation):
            for action in model.get_action(encode(observation)):
                TASK_ENV.take_action(action)
                model.update_obs(encode(TASK_ENV.get_obs()))

        def reset_model(model):
            model.reset_obs()
    """,
    # everything by call(func_name=, obs=), and no reset function: the model's own spelling of it
    "DP_double_env": """
        import numpy as np

        class DP:
            def __init__(self):
                self.window = []

            def update_obs(self, obs):
                self.window.append(float(obs["x"]))

            def reset_obs(self):
                self.window.clear()

            def get_action(self):
                return np.full((2, 14), sum(self.window))

            def call(self, func_name, obs=None):
                method = getattr(self, func_name)
                return method() if obs is None else method(obs)

        def get_model(usr_args):
            return DP()

        def eval(TASK_ENV, model, observation):
            model.call(func_name="update_obs", obs={"x": observation["joint_action"]["vector"][1]})
            for action in model.call(func_name="get_action"):
                TASK_ENV.take_action(action)
    """,
    # len() of a nested attribute, and a nested reset
    "DP3": """
        import collections
        import numpy as np

        class Runner:
            def __init__(self):
                self.obs = collections.deque(maxlen=3)

            def reset_obs(self):
                self.obs.clear()

        class DP3:
            def __init__(self):
                self.env_runner = Runner()

            def update_obs(self, obs):
                self.env_runner.obs.append(obs)

            def get_action(self):
                return np.full((4, 14), float(len(self.env_runner.obs)))

        def get_model(usr_args):
            return DP3()

        def eval(TASK_ENV, model, observation):
            obs = {"point_cloud": np.ones((8, 6)), "agent_pos": observation["joint_action"]["vector"]}
            if len(model.env_runner.obs) == 0:
                model.update_obs(obs)
            for action in model.get_action():
                TASK_ENV.take_action(action)
                model.update_obs(obs)

        def reset_model(model):
            model.env_runner.reset_obs()
    """,
    "DexVLA": DICT_POLICY.format(
        obs='obs = {"image": cameras["head_camera"]["rgb"], "qpos": observation["joint_action"]["vector"]}',
        reset="pass",
    ),
    "TinyVLA": DICT_POLICY.format(
        obs='obs = {"image": np.stack([cameras["head_camera"]["rgb"]] * 2), "lang": TASK_ENV.get_instruction()}',
        reset="pass",
    ),
    # the whole observation goes over, float64 depth included
    "openvla_oft": """
        import numpy as np

        class OFT:
            def get_action(self, obs):
                depth = sum(camera["depth"].sum() for camera in obs["observation"].values())
                return [np.full(14, depth + len(obs["language"]))] * 3

        def get_model(usr_args):
            return OFT()

        def eval(TASK_ENV, model, observation):
            observation["language"] = TASK_ENV.get_instruction()
            for action in model.get_action(observation):
                TASK_ENV.take_action(action)

        def reset_model(model):
            pass
    """,
    "GO1": windowed(
        cls="GO1",
        steps="pass",
        language="set_language",
        reset="reset_observation_window",
        bound="30",
        module_reset=RESET_BY_MODULE.format("reset_observation_window"),
    ),
    "RDT": windowed(
        cls="RDT",
        steps="self.rdt_step = 17",
        language="set_language_instruction",
        reset="reset_obsrvationwindows",
        bound="model.rdt_step",
        module_reset=RESET_BY_MODULE.format("reset_obsrvationwindows"),
    ),
    "pi0": windowed(
        cls="PI0",
        steps="self.pi0_step = 20",
        language="set_language",
        reset="reset_obsrvationwindows",
        bound="model.pi0_step",
        module_reset=RESET_BY_MODULE.format("reset_obsrvationwindows"),
    ),
    "pi05": windowed(
        cls="PI0",
        steps="self.pi0_step = 20",
        language="set_language",
        reset="reset_model",
        bound="model.pi0_step",
        module_reset="",
    ),
    # len() of an attribute
    "Your_Policy": """
        import numpy as np

        class Model:
            def __init__(self):
                self.obs_cache = []

            def update_obs(self, obs):
                self.obs_cache.append(obs)

            def get_action(self):
                return np.full((2, 14), float(len(self.obs_cache)))

        def get_model(usr_args):
            return Model()

        def eval(TASK_ENV, model, observation):
            if len(model.obs_cache) == 0:
                model.update_obs(observation["joint_action"])
            for action in model.get_action():
                TASK_ENV.take_action(action)
                model.update_obs(TASK_ENV.get_obs()["joint_action"])

        def reset_model(model):
            model.obs_cache.clear()
    """,
    # data by call()
    "Your_Policy_double_env": """
        import numpy as np

        class Model:
            def __init__(self):
                self.obs_cache = []

            def update_obs(self, obs):
                self.obs_cache.append(obs)

            def get_action(self):
                return np.full((2, 14), float(len(self.obs_cache)))

            def call(self, func_name, obs=None):
                member = getattr(self, func_name)
                return member if not callable(member) else member() if obs is None else member(obs)

        def get_model(usr_args):
            return Model()

        def eval(TASK_ENV, model, observation):
            if len(model.call("obs_cache")) == 0:
                model.call("update_obs", observation["joint_action"]["vector"])
            for action in model.call("get_action"):
                TASK_ENV.take_action(action)
                model.call("update_obs", observation["joint_action"]["vector"])

        def reset_model(model):
            model.obs_cache.clear()
    """,
}


class TaskEnv:
    """Gives observations of the contract's types, keeps the actions."""

    def __init__(self) -> None:
        self.actions: list[np.ndarray] = []

    def get_instruction(self) -> np.str_:
        return np.str_("put the cup in the box")

    def get_obs(self) -> dict[str, object]:
        rgba = np.random.default_rng(len(self.actions)).integers(0, 255, (12, 16, 4), dtype=np.uint8)
        names = ("head_camera", "left_camera", "right_camera", "countertop_camera")
        camera = {"rgb": rgba[:, :, :3], "depth": np.full((12, 16), 750.0)}
        arm = [np.float64(value) for value in np.linspace(0, 1, 6)]
        joints = {"left_arm": arm, "right_arm": arm, "left_gripper": 1.0, "vector": np.arange(14.0)}
        return {"observation": {name: dict(camera) for name in names}, "joint_action": joints}

    def take_action(self, action: object, action_type: str = "qpos") -> None:
        assert action_type == "qpos"
        self.actions.append(np.array(action, dtype=np.float64))


def two_episodes(face: PolicyFace, model: object, reset: Callable[[], object]) -> np.ndarray:
    env = TaskEnv()
    for _ in range(2):
        reset()
        for _ in range(2):
            face.eval(env, model, env.get_obs())
    return np.stack(env.actions)


def through(source: ModelSource, face: PolicyFace) -> np.ndarray:
    return two_episodes(
        face, ModelClient(source), lambda: source.begin_episode(EpisodeInfo("cell/1#1", "put_cup_in_box", 1))
    )


def in_hand(face: PolicyFace) -> np.ndarray:
    """The truth: no proxy at all."""
    model = load_model(face, {})

    def reset() -> None:
        if face.reset_model is not None:
            face.reset_model(model)
        else:
            getattr(model, "reset_model", getattr(model, "reset_obs", None))()  # type: ignore[misc]

    return two_episodes(face, model, reset)


@pytest.mark.parametrize("name", WRAPPERS)
async def test_a_wrapper_acts_over_the_socket_as_with_the_model_in_its_hand(name: str, write_policy) -> None:
    face = load_face(write_policy(name, WRAPPERS[name]))
    truth = in_hand(face)
    assert len(truth) >= 4

    local = through(LocalModel(Dispatcher(face, load_model(face, {}))), face)
    # Pictures arrive contiguous, which changes the order of a float sum and so, at most, its last bits.
    np.testing.assert_allclose(local, truth, rtol=1e-12)

    policy = Policy(face, load_model(face, {}))
    ours, theirs = socket.socketpair()
    ended: list[Farewell] = []

    async def serve() -> None:
        channel = TrioChannel(trio.socket.from_stdlib_socket(ours))
        ended.append(await Session(channel, InPlace(policy), policy.name, "sim", Tally()).serve())

    def simulate() -> np.ndarray:
        remote = RemoteModel(BlockingChannel(theirs), RequesterSession(), patience=Patience(10.0, 10.0), peer="model")
        remote.handshake()
        actions = through(remote, face)
        remote.close(goodbye=True)
        return actions

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            over_the_socket = await trio.to_thread.run_sync(simulate)
    assert np.array_equal(over_the_socket, local)
    assert ended[0].upgraded


@pytest.mark.parametrize("name", ["DP", "DP3", "DP_double_env", "Your_Policy", "Your_Policy_double_env"])
def test_the_reset_reaches_the_model(name: str, write_policy) -> None:
    face = load_face(write_policy(name, WRAPPERS[name]))
    client = ModelClient(LocalModel(Dispatcher(face, load_model(face, {}))))

    def act() -> np.ndarray:
        env = TaskEnv()
        face.eval(env, client, env.get_obs())
        return np.stack(env.actions)

    client.reset_model()
    first = act()
    assert not np.array_equal(act(), first)  # what these policies remember shows
    client.reset_model()
    assert np.array_equal(act(), first)


def test_a_policy_that_cannot_be_reset_is_refused_before_the_first_episode(write_policy) -> None:
    source = WRAPPERS["Your_Policy_double_env"].split("def reset_model")[0]
    face = load_face(write_policy("forgetful", source))
    with pytest.raises(PolicyLoadError, match="cannot be reset between episodes"):
        Dispatcher(face, load_model(face, {}))
