"""The conformance check passes a good environment and names the right line for each way of breaking one."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from toy_env import SIDES, ToyEnv, rotation_of

from robopro_eval.simulators.conformance import CheckLine, ConformanceReport, Verdict, check_task_env


def check(env: type[ToyEnv], **kwargs: Any) -> ConformanceReport:
    return check_task_env(env, {}, **kwargs)


def test_a_good_environment_passes_and_says_what_it_does_not_offer() -> None:
    lines: list[CheckLine] = []
    report = check(ToyEnv, on_line=lines.append)
    assert report.ok, str(report)
    assert tuple(lines) == report.lines
    not_offered = {line.name for line in report.lines if line.verdict is Verdict.NOT_OFFERED}
    assert not_offered == {"depth", "joint_state"}
    assert all(line.verdict is Verdict.PASS for line in report.lines if line.name not in not_offered)
    assert len({line.name for line in report.lines}) == len(report.lines)


# --- broken environments, one flaw each ------------------------------------------------------------------------


class NoExpert(ToyEnv):
    play_once = None  # type: ignore[assignment]


class SetupRaises(ToyEnv):
    def setup_demo(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no scene today")


class CountNotReset(ToyEnv):
    def setup_demo(self, *args: Any, **kwargs: Any) -> None:
        count = getattr(self, "take_action_cnt", 0)
        super().setup_demo(*args, **kwargs)
        self.take_action_cnt = count


class LimitAlways(ToyEnv):
    def setup_demo(self, *args: Any, **kwargs: Any) -> None:
        super().setup_demo(*args, **kwargs)
        self.step_lim = 50


class Obs(ToyEnv):
    """Base of those that break the observation."""

    def get_obs(self) -> dict[str, Any]:
        obs = super().get_obs()
        self.spoil(obs)
        self.now_obs = copy.deepcopy(obs)
        return obs

    def spoil(self, obs: dict[str, Any]) -> None:
        raise NotImplementedError


class NoPointcloudKey(Obs):
    def spoil(self, obs: dict[str, Any]) -> None:
        del obs["pointcloud"]


class FloatImages(Obs):
    def spoil(self, obs: dict[str, Any]) -> None:
        view = obs["observation"]["head_camera"]
        view["rgb"] = (view["rgb"] / 255).astype(np.float32)


class DoubleExtrinsics(Obs):
    def spoil(self, obs: dict[str, Any]) -> None:
        view = obs["observation"]["left_camera"]
        view["extrinsic_cv"] = view["extrinsic_cv"].astype(np.float64)


class NoWristCamera(Obs):
    def spoil(self, obs: dict[str, Any]) -> None:
        del obs["observation"]["right_camera"]


class CameraToWorldExtrinsics(Obs):
    def spoil(self, obs: dict[str, Any]) -> None:
        view = obs["observation"]["head_camera"]
        view["extrinsic_cv"] = np.linalg.inv(np.vstack([view["extrinsic_cv"], [0, 0, 0, 1]]))[:3].astype(np.float32)


class DepthInMetres(Obs):
    def spoil(self, obs: dict[str, Any]) -> None:
        for view in obs["observation"].values():
            view["depth"] = np.full(view["rgb"].shape[:2], 1.4)


class ArmsAsArrays(Obs):
    def spoil(self, obs: dict[str, Any]) -> None:
        obs["joint_action"]["left_arm"] = np.array(obs["joint_action"]["left_arm"])


class GrippersAtTheEnd(Obs):
    def spoil(self, obs: dict[str, Any]) -> None:
        obs["joint_action"]["vector"] = obs["joint_action"]["vector"][[*range(6), *range(7, 13), 6, 13]]
        obs["joint_action"]["vector"][11] = 0.25


class JointStateWithoutVector(Obs):
    def spoil(self, obs: dict[str, Any]) -> None:
        obs["joint_state"] = {k: v for k, v in obs["joint_action"].items() if k != "vector"}


class EndposeTuple(Obs):
    def spoil(self, obs: dict[str, Any]) -> None:
        obs["endpose"]["left_endpose"] = tuple(obs["endpose"]["left_endpose"])


class MeasuredGripper(Obs):
    def spoil(self, obs: dict[str, Any]) -> None:
        obs["endpose"]["left_gripper"] *= 0.98


class StaleNowObs(ToyEnv):
    def keep(self, obs: dict[str, Any]) -> dict[str, Any]:
        return copy.deepcopy(getattr(self, "now_obs", {}))


class SharedNowObs(ToyEnv):
    def keep(self, obs: dict[str, Any]) -> dict[str, Any]:
        return obs


class LiveObservation(ToyEnv):
    """Hands out the same buffer every time."""

    buffer = np.zeros(14)

    def get_obs(self) -> dict[str, Any]:
        obs = super().get_obs()
        self.buffer[:] = obs["joint_action"]["vector"]
        obs["joint_action"]["vector"] = self.buffer
        return obs


class NoisyImages(Obs):
    def spoil(self, obs: dict[str, Any]) -> None:
        obs["observation"]["head_camera"]["rgb"][0, 0, 0] = np.random.randint(256)


class InstructionUpper(ToyEnv):
    def get_instruction(self, instruction: str | None = None) -> str | None:
        return str(self.instruction).upper()


class RelativeJoints(ToyEnv):
    def decode(self, action: Any, action_type: str) -> Any:
        if action_type == "qpos":
            action = action[:14] + np.concatenate([[*self.targets[side], 0] for side in SIDES])
        return super().decode(action, action_type)


class FlangeReportedToolCommanded(ToyEnv):
    def solve(self, pose: Any) -> Any:
        offset = rotation_of(pose[3:]).apply([0.12, 0, 0])
        return super().solve(np.concatenate([pose[:3] - offset, pose[3:]]))


class ScalarLast(ToyEnv):
    """Consistently scalar-last: the identity holds, only the physical attitude tells."""

    def endpose(self, side: str) -> list[float]:
        pose = super().endpose(side)
        return [*pose[:3], *pose[4:], pose[3]]

    def solve(self, pose: Any) -> Any:
        return super().solve(np.concatenate([pose[:3], np.roll(pose[3:], 1)]))


class ArmsSwapped(ToyEnv):
    def decode(self, action: Any, action_type: str) -> Any:
        goals, openings = super().decode(action, action_type)
        if action_type == "ee":
            moved = {side: goals[side] - self.targets[side] for side in SIDES if goals[side] is not None}
            goals = {side: self.targets[side] + moved[other] for side, other in (SIDES, SIDES[::-1]) if other in moved}
            goals = {side: goals.get(side) for side in SIDES}
        return goals, openings


class GripperRefused(ToyEnv):
    def gripper(self, opening: float) -> float:
        if not 0 <= opening <= 1:
            raise ValueError("gripper out of range")
        return float(opening)


class GripperUnclipped(ToyEnv):
    def gripper(self, opening: float) -> float:
        return float(opening)


class UnreachableRaises(ToyEnv):
    def solve(self, pose: Any) -> Any:
        goal = super().solve(pose)
        if goal is None:
            raise RuntimeError("no inverse kinematics")
        return goal


class UnreachableStopsBoth(ToyEnv):
    def decode(self, action: Any, action_type: str) -> Any:
        goals, openings = super().decode(action, action_type)
        return (dict.fromkeys(SIDES) if any(goal is None for goal in goals.values()) else goals), openings


class UnreachableIsFree(ToyEnv):
    def decode(self, action: Any, action_type: str) -> Any:
        goals, openings = super().decode(action, action_type)
        self.take_action_cnt -= any(goal is None for goal in goals.values())
        return goals, openings


class UnreachableSpoilsPlanSuccess(ToyEnv):
    def solve(self, pose: Any) -> Any:
        goal = super().solve(pose)
        self.plan_success = self.plan_success and goal is not None
        return goal


class AnyActionType(ToyEnv):
    def decode(self, action: Any, action_type: str) -> Any:
        return super().decode(action, "ee" if action_type != "qpos" else "qpos")


class CountsTwice(ToyEnv):
    def film(self) -> None:
        super().film()
        self.take_action_cnt += 1


class GoesOnAtTheLimit(ToyEnv):
    def finished(self) -> bool:
        return self.eval_success


class RaisesAtTheLimit(ToyEnv):
    def finished(self) -> bool:
        if self.take_action_cnt == self.step_lim:
            raise RuntimeError("the episode is over")
        return self.eval_success


class MovesAfterSuccess(ToyEnv):
    def finished(self) -> bool:
        return self.take_action_cnt == self.step_lim


class NeverLatches(ToyEnv):
    def latch(self) -> None: ...


class SuccessSurvivesSetup(ToyEnv):
    def setup_demo(self, *args: Any, **kwargs: Any) -> None:
        latched = getattr(self, "eval_success", False)
        super().setup_demo(*args, **kwargs)
        self.eval_success = latched


class ExpertFails(ToyEnv):
    def play_once(self) -> dict[str, Any]:
        return self.info


class CloseForgets(ToyEnv):
    def close_env(self, clear_cache: bool = False) -> None:
        del self.goal


class UnseededPlacement(ToyEnv):
    def place(self, seed: int) -> Any:
        return np.random.uniform([-0.3, 0.0, 0.8], [-0.1, 0.1, 0.9])


class Warm(ToyEnv):
    """What ran before leaks: each new seed shifts everything a little."""

    heat = 0.0
    last: int | None = None

    def place(self, seed: int) -> Any:
        self.heat += 0.01 * (self.last is not None and seed != self.last)
        self.last = seed
        return super().place(seed) + self.heat


class FirstEpisodeDiffers(ToyEnv):
    fresh = True

    def place(self, seed: int) -> Any:
        shift, self.fresh = 0.01 * self.fresh, False
        return super().place(seed) + shift


class SeedIgnored(ToyEnv):
    def place(self, seed: int) -> Any:
        return super().place(7)


class MetricsWithoutNames(ToyEnv):
    def get_collision_metrics(self) -> dict[str, Any]:
        return {k: v for k, v in super().get_collision_metrics().items() if not k.endswith("_names")}


class MetricsDisagree(ToyEnv):
    def get_collision_metrics(self) -> dict[str, Any]:
        return {**super().get_collision_metrics(), "is_collision": True}


class NoLinkNames(ToyEnv):
    def setup_demo(self, *args: Any, **kwargs: Any) -> None:
        super().setup_demo(*args, **kwargs)
        del self.robot_link_names


class VideoInFloat(ToyEnv):
    def film(self) -> None:
        if hasattr(self, "eval_video_ffmpeg"):
            frame = self.now_obs["observation"]["head_camera"]["rgb"].astype(np.float32)
            self.eval_video_ffmpeg.stdin.write(frame.tobytes())


class VideoNotClosed(ToyEnv):
    def _del_eval_video_ffmpeg(self) -> None:
        del self.eval_video_ffmpeg


class NoFrames(ToyEnv):
    def film(self) -> None: ...


BROKEN: list[tuple[type[ToyEnv], str, str]] = [
    (NoExpert, "members", "play_once"),
    (SetupRaises, "setup_demo", "RuntimeError: no scene today"),
    (CountNotReset, "closing", "take_action_cnt"),
    (LimitAlways, "no limit without eval_mode", "step_lim is 50"),
    (NoPointcloudKey, "observation keys", "lacks pointcloud"),
    (FloatImages, "cameras", r"head_camera\.rgb is \(12, 16, 3\) float32"),
    (DoubleExtrinsics, "cameras", r"left_camera\.extrinsic_cv is \(3, 4\) float64"),
    (NoWristCamera, "cameras", "no right_camera"),
    (CameraToWorldExtrinsics, "camera matrices", "head_camera: .* different cameras"),
    (DepthInMetres, "depth", r"1\.4\.\.1\.4"),
    (ArmsAsArrays, "joint_action", r"left_arm is \(6,\) float64, expected a list"),
    (GrippersAtTheEnd, "joint_action", "order left arm, left gripper"),
    (JointStateWithoutVector, "joint_state", "vector is absent"),
    (EndposeTuple, "endpose", "tuple of 7, expected a list"),
    (MeasuredGripper, "endpose", r"left_gripper is 0\.98, joint_action's is 1\.0"),
    (StaleNowObs, "now_obs", "now_obs differs"),
    (SharedNowObs, "observation is a snapshot", "writing into an observation changed now_obs"),
    (LiveObservation, "observation is a snapshot", r"changed at obs\.joint_action\.vector when the robot moved"),
    (NoisyImages, "observing changes nothing", r"obs\.observation\.head_camera\.rgb"),
    (InstructionUpper, "instruction", "PUT THE CUP IN THE BOX"),
    (RelativeJoints, "qpos action", "drive targets are"),
    (FlangeReportedToolCommanded, "ee identity", r"left arm is .* mm"),
    (ScalarLast, "ee pose", "where it should be|within the hand"),
    (ArmsSwapped, "ee pose", "left 'ee' action the left arm"),
    (GripperRefused, "gripper range", "-1 raised ValueError"),
    (GripperUnclipped, "gripper range", r"commanding -1 the left gripper reports -1\.0"),
    (UnreachableRaises, "unreachable pose", "no inverse kinematics"),
    (UnreachableStopsBoth, "unreachable pose", "when the left pose was unreachable the right arm"),
    (UnreachableIsFree, "unreachable pose", "did not consume its step"),
    (UnreachableSpoilsPlanSuccess, "unreachable pose", "plan_success"),
    (AnyActionType, "unknown action type", "delta_ee"),
    (CountsTwice, "step limit", "after 1 actions take_action_cnt is 2"),
    (GoesOnAtTheLimit, "step limit", "at the step limit was counted"),
    (RaisesAtTheLimit, "step limit", "RuntimeError: the episode is over"),
    (MovesAfterSuccess, "success", "after success was counted"),
    (NeverLatches, "success", "did not set eval_success"),
    (SuccessSurvivesSetup, "success", "survived setup_demo"),
    (ExpertFails, "expert", "ended without success"),
    (CloseForgets, "closing", "goal"),
    (UnseededPlacement, "same seed again", r"at the start at obs\.observation"),
    (Warm, "same seed after another", "another seed between differ at the start"),
    (FirstEpisodeDiffers, "same seed elsewhere", "used and in a new environment"),
    (SeedIgnored, "other seed", "same images"),
    (MetricsWithoutNames, "collision metrics", "robot_to_furniture_names"),
    (MetricsDisagree, "collision metrics", "is_collision is True with a total of 0"),
    (NoLinkNames, "collision metrics", "robot_link_names is None"),
    (VideoInFloat, "video sink", "2304 bytes fits no camera"),
    (VideoNotClosed, "video sink", "left the encoder running"),
    (NoFrames, "video sink", "wrote no frame"),
]


@pytest.mark.parametrize(("env", "name", "what"), BROKEN, ids=[case[0].__name__ for case in BROKEN])
def test_a_flaw_fails_its_line_with_a_fix(env: type[ToyEnv], name: str, what: str) -> None:
    report = check(env)
    assert not report.ok
    line = report[name]
    assert line.verdict is Verdict.FAIL, str(report)
    assert line.fix
    with pytest.raises(AssertionError, match=what):
        raise AssertionError(line.what)
    text = str(line)
    assert text.startswith("fail")
    assert line.fix in text


def test_every_check_is_failed_by_some_broken_environment() -> None:
    """No check is a decoration (the first state is covered below)."""
    covered = {name for _, name, _ in BROKEN} | {"initial state"}
    assert covered == {line.name for line in check(ToyEnv).lines}


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("take_action_cnt", 3, "starts at 3"),
        ("eval_success", True, "eval_success does not start False"),
        ("plan_success", False, "plan_success does not start True"),
        ("step_lim", 0, "step_lim is 0"),
        ("grippers", {"left": 1.0, "right": 0.0}, "right gripper starts at 0.0"),
    ],
)
def test_a_wrong_first_state(name: str, value: object, what: str) -> None:
    class Wrong(ToyEnv):
        def setup_demo(self, *args: Any, **kwargs: Any) -> None:
            super().setup_demo(*args, **kwargs)
            setattr(self, name, value)

    line = check(Wrong)["initial state"]
    assert line.verdict is Verdict.FAIL
    assert what in line.what


def test_without_setup_the_rest_is_not_run() -> None:
    report = check(SetupRaises)
    assert report["members"].verdict is Verdict.PASS
    assert {line.verdict for line in report.lines[2:]} == {Verdict.NOT_RUN}
    assert "test_conformance.py" in report["setup_demo"].fix  # where it was raised


def test_metrics_and_video_may_be_left_out() -> None:
    class Plain(ToyEnv):
        def __getattribute__(self, name: str) -> Any:
            if name in ("get_collision_metrics", "_set_eval_video_ffmpeg"):
                raise AttributeError(name)
            return super().__getattribute__(name)

    report = check(Plain)
    assert report.ok
    assert report["collision metrics"].verdict is Verdict.NOT_OFFERED
    assert report["video sink"].verdict is Verdict.NOT_OFFERED


def test_success_is_checked_without_an_expert_too() -> None:
    class NoExpertNoLatch(ExpertFails):
        def take_action(self, action: Any, action_type: str = "qpos") -> None:
            super().take_action(action, action_type)
            if self.eval_success:
                self.finished = lambda: False  # type: ignore[method-assign]

    assert check(ExpertFails)["success"].verdict is Verdict.PASS
    assert check(NoExpertNoLatch)["success"].verdict is Verdict.FAIL


def test_an_episode_is_closed_when_the_check_is_over() -> None:
    opened: list[int] = []

    class Counted(ToyEnv):
        def setup_demo(self, *args: Any, **kwargs: Any) -> None:
            opened.append(1)
            super().setup_demo(*args, **kwargs)

        def close_env(self, clear_cache: bool = False) -> None:
            opened.append(-1)

    check(Counted)
    assert sum(opened) == 0
    assert len(opened) > 20


def test_no_seeds_is_a_usage_error() -> None:
    with pytest.raises(ValueError, match="at least one seed"):
        check(ToyEnv, seeds=())


def test_unknown_line() -> None:
    with pytest.raises(KeyError):
        check(ToyEnv)["no such check"]
