"""The tabletop benchmark as the episode loop sees it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from robopro_eval.simulators.names import UnknownName
from robopro_eval.simulators.tabletop import instructions, seeds
from robopro_eval.simulators.tabletop.catalogue import CAMERA_NAMES, TASK_CONFIGS, TASK_STEP_LIMITS
from robopro_eval.simulators.tabletop.configs import load_config

if TYPE_CHECKING:
    from robopro_eval.simulators.tabletop.env import TabletopEnv


class TabletopBenchmark:
    """Implements `simulators.benchmark.Benchmark`. Only `make_env` imports SAPIEN."""

    name = "tabletop"

    def task_names(self) -> tuple[str, ...]:
        return tuple(TASK_CONFIGS)

    def config_names(self, task: str) -> tuple[str, ...]:
        self._check_task(task)
        return TASK_CONFIGS[task]

    def make_env(self, task: str) -> TabletopEnv:
        self._check_task(task)
        import sapien

        from robopro_eval.simulators.tabletop.env import TabletopEnv
        from robopro_eval.simulators.tabletop.render_pack import prepare_renderer

        # A machine that cannot render (RuntimeError) should say so here, once, and not at every seed.
        prepare_renderer()
        sapien.render.RenderSystem()
        return TabletopEnv(task)

    def setup_kwargs(
        self, task: str, config: str, *, overrides: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        self._check_config(task, config)
        return {**load_config(config), "task_name": task, "task_config": config, **(overrides or {})}

    def instruction(self, task: str, config: str, seed: int, kind: str = "unseen") -> str:
        del seed  # one wording a task
        self._check_config(task, config)
        return instructions.instruction(task, kind)

    def seed_bank(self, task: str, config: str) -> Path | None:
        self._check_config(task, config)
        return seeds.bank_path(task, config)

    def seeds_root(self) -> Path:
        return seeds.seeds_root()

    def camera_names(self) -> tuple[str, ...]:
        return CAMERA_NAMES

    def step_limit(self, task: str) -> int:
        self._check_task(task)
        return TASK_STEP_LIMITS[task]

    def _check_task(self, task: str) -> None:
        if task not in TASK_CONFIGS:
            raise UnknownName("task", task, TASK_CONFIGS)

    def _check_config(self, task: str, config: str) -> None:
        self._check_task(task)
        if config not in TASK_CONFIGS[task]:
            raise UnknownName(f"config of task {task}", config, TASK_CONFIGS[task])
