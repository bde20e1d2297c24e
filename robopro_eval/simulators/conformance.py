"""Does an environment keep the TASK_ENV contract? A check that anyone can put their own environment through.

::

    report = check_task_env(MyEnv, {"task_name": "lift_pot", "task_config": "clean"}, seeds=(0, 1))
    print(report)               # one line per check: pass / fail / not offered, what is wrong, and the fix
    assert report.ok

The environment is driven only through the contract's members: about twenty-five set-ups and a few dozen actions, so
the time is that of your ``setup_demo()``. One instance is reused for all episodes, as an evaluation does it; a second
one is made for a single check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from robopro_eval.simulators._conformance import acting, episodes, observing
from robopro_eval.simulators._conformance.kit import Bench, NotOffered, Problem


class Verdict(str, Enum):
    """What a check found."""

    PASS = "pass"
    FAIL = "fail"
    NOT_OFFERED = "not offered"
    """The environment leaves out something the contract lets it leave out."""
    NOT_RUN = "not run"
    """An earlier failure (no members, no set-up) made the check meaningless; counts as not passed."""


@dataclass(frozen=True)
class CheckLine:
    """One check's outcome. ``what``: what is wrong (or was not offered); ``fix``: how to mend it; both may be empty."""

    name: str
    verdict: Verdict
    what: str = ""
    fix: str = ""

    def __str__(self) -> str:
        text = f"{self.verdict.value:<12}{self.name}"
        if self.what:
            text += f": {self.what}"
        if self.fix:
            text += f"\n{'':12}fix: {self.fix}"
        return text


@dataclass(frozen=True)
class ConformanceReport:
    """All lines, in the order the checks ran."""

    lines: tuple[CheckLine, ...]

    @property
    def ok(self) -> bool:
        """Every check passed or was not offered."""
        return all(line.verdict in (Verdict.PASS, Verdict.NOT_OFFERED) for line in self.lines)

    @property
    def failures(self) -> tuple[CheckLine, ...]:
        return tuple(line for line in self.lines if line.verdict is Verdict.FAIL)

    def __getitem__(self, name: str) -> CheckLine:
        """The line of that name; ``KeyError`` if there is none."""
        for line in self.lines:
            if line.name == name:
                return line
        raise KeyError(name)

    def __str__(self) -> str:
        return "\n".join(str(line) for line in self.lines)


# In the order they run: each group may rely on the ones before it. Those of the first group are needed for the rest.
_NEEDED: tuple[tuple[str, Callable[[Bench], None]], ...] = (
    ("members", observing.members),
    ("setup_demo", observing.setup),
    ("observation keys", observing.observation_keys),
)
_CHECKS: tuple[tuple[str, Callable[[Bench], None]], ...] = (
    ("cameras", observing.cameras),
    ("camera matrices", observing.camera_matrices),
    ("depth", observing.depth),
    ("joint_action", observing.joint_action),
    ("joint_state", observing.joint_state),
    ("endpose", observing.endpose),
    ("initial state", observing.initial_state),
    ("now_obs", observing.now_obs),
    ("observing changes nothing", observing.observing_changes_nothing),
    ("instruction", observing.instruction),
    ("observation is a snapshot", observing.observation_is_a_snapshot),
    ("no limit without eval_mode", observing.no_limit_without_eval_mode),
    ("qpos action", acting.qpos_action),
    ("ee identity", acting.ee_identity),
    ("ee pose", acting.ee_pose),
    ("gripper range", acting.gripper_range),
    ("unreachable pose", acting.unreachable_pose),
    ("unknown action type", acting.unknown_action_type),
    ("step limit", acting.step_limit),
    ("success", acting.success),
    ("expert", episodes.expert),
    ("closing", episodes.closing),
    ("same seed again", episodes.same_seed_again),
    ("same seed after another", episodes.same_seed_after_another),
    ("same seed elsewhere", episodes.same_seed_elsewhere),
    ("other seed", episodes.other_seed),
    ("collision metrics", episodes.collision_metrics),
    ("video sink", episodes.video_sink),
)


def check_task_env(
    make_env: Callable[[], object],
    setup_kwargs: Mapping[str, object],
    *,
    seeds: Sequence[int] = (0, 1),
    arm_joints: int = 6,
    position_tolerance: float = 0.004,
    rotation_tolerance: float = 0.02,
    settle_actions: int = 3,
    on_line: Callable[[CheckLine], None] | None = None,
) -> ConformanceReport:
    """Put an environment through the TASK_ENV contract.

    Args:
        make_env: makes an instance, without set-up.
        setup_kwargs: what ``setup_demo`` needs besides ``now_ep_num``, ``seed``, ``is_test`` and ``eval_mode``.
        seeds: two or more seeds whose episodes the expert solves.
        arm_joints: joints per arm (6 for a Piper or ALOHA arm, 7 for a Franka).
        position_tolerance: metres an arm may be off a commanded pose 2 cm away.
        rotation_tolerance: the same in radians.
        settle_actions: how often a pose is commanded before the arm is expected there.
        on_line: called with each line as it is found, for a running display.

    Returns:
        The report. Whatever the environment raises becomes a line of it; only ``KeyboardInterrupt`` and its like pass.

    Raises:
        ValueError: no seeds.
    """
    if not seeds:
        raise ValueError("check_task_env needs at least one seed")
    bench = Bench(
        make_env=make_env,
        setup_kwargs=setup_kwargs,
        seeds=tuple(seeds),
        arm_joints=arm_joints,
        position_tolerance=position_tolerance,
        rotation_tolerance=rotation_tolerance,
        settle_actions=settle_actions,
    )
    lines: list[CheckLine] = []
    blocked = ""
    for needed, (name, check) in [*((True, c) for c in _NEEDED), *((False, c) for c in _CHECKS)]:
        if blocked:
            line = CheckLine(name, Verdict.NOT_RUN, f"needs {blocked!r}")
        else:
            line = _run(name, check, bench)
            if needed and line.verdict is Verdict.FAIL:
                blocked = name
        lines.append(line)
        if on_line is not None:
            on_line(line)
    _run("", Bench.stop, bench)
    return ConformanceReport(tuple(lines))


def _run(name: str, check: Callable[[Bench], None], bench: Bench) -> CheckLine:
    try:
        check(bench)
    except Problem as problem:
        return CheckLine(name, Verdict.FAIL, problem.what, problem.fix)
    except NotOffered as reason:
        return CheckLine(name, Verdict.NOT_OFFERED, str(reason))
    except Exception as error:
        place = ""
        trace = error.__traceback__
        while trace is not None:
            place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
            trace = trace.tb_next
        return CheckLine(name, Verdict.FAIL, f"{type(error).__name__}: {error}", f"see {place}")
    return CheckLine(name, Verdict.PASS)
