"""The environment as a policy's ``eval()`` sees it: the real one, with actions checked and faults kept apart.

Anything raised inside the environment is the simulator's fault, anything raised outside is the policy's. ``eval()``
may catch exceptions of its own; a simulator fault or a lost connection must not disappear that way, so it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from robopro_eval.simulators.actions import check_action
from sim_endpoint.faults import SimulatorFault

if TYPE_CHECKING:
    from robopro_eval.simulators.task_env import TaskEnv


class GuardedEnv:
    """Stands before one environment for the length of one episode; everything else is the environment's own."""

    _env: TaskEnv
    _acting: Callable[[], None]
    _acted: Callable[[], None]
    _fault: SimulatorFault | None

    def __init__(self, env: TaskEnv, acting: Callable[[], None], acted: Callable[[], None]) -> None:
        """`acting` is called before every action, `acted` after every one that was taken."""
        self.__dict__["_env"] = env
        self.__dict__["_acting"] = acting
        self.__dict__["_acted"] = acted
        self.__dict__["_fault"] = None

    def take_action(self, action: ArrayLike, action_type: str = "qpos") -> None:
        """Check the action, then hand it on. Raises ValueError (the policy's fault), SimulatorFault.

        Once the episode is over nothing happens any more, whatever the rest of a chunk holds.
        """
        self._acting()
        if self._env.eval_success or self._env.take_action_cnt == self._env.step_lim:
            return
        vector = check_action(action, action_type)
        try:
            self._env.take_action(vector, action_type)
        except Exception as error:
            raise self._keep("take_action", error) from error
        self._acted()

    def get_obs(self) -> Mapping[str, object]:
        try:
            return self._env.get_obs()
        except Exception as error:
            raise self._keep("get_obs", error) from error

    @property
    def simulator_fault(self) -> SimulatorFault | None:
        """What the environment raised, also if the policy's code swallowed it."""
        return self._fault

    def __getattr__(self, name: str) -> object:
        return getattr(self._env, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._env, name, value)

    def _keep(self, where: str, error: Exception) -> SimulatorFault:
        fault = SimulatorFault(f"{where}() raised {type(error).__name__}: {error}")
        self.__dict__["_fault"] = fault
        return fault
