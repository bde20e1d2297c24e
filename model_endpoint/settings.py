"""Every setting of ``eval-model``, with its default, its environment variable and the reason for its value."""

from __future__ import annotations

from framing.frames import DEFAULT_MAX_FRAME
from model_endpoint.policy import UNBATCHED
from robopro_eval.settings.link import LinkSettings
from robopro_eval.settings.program import knob
from robopro_eval.transport.retry import ATTEMPTS, INTERVAL, NAME_ATTEMPTS, STATUS_EVERY

DEFAULT_PORT = 29761
HANG_SECONDS = 1800.0
STOP_SECONDS = 3.0
MAX_CONNECTIONS = 64


class ModelSettings(LinkSettings):
    """The model program's settings. Field names are flag names."""

    policy_name: str = knob(
        "dxvla",
        "the policy: a path of a folder with deploy_policy.py, or a name looked for in ./policies, ./policy and "
        "among the shipped ones",
        group="What to serve",
    )
    ckpt_setting: str | None = knob(None, "name of the checkpoint setting, for the policy", group="What to serve")
    checkpoint_path: str | None = knob(
        None, "where the policy's checkpoint lies, for the policy", group="What to serve", metavar="PATH"
    )
    task_name: str | None = knob(
        None, "the task, for policies that load per task; the simulator decides what runs", group="What to serve"
    )
    task_config: str | None = knob(None, "as task_name", group="What to serve")
    seed: int | None = knob(None, "seed, for the policy", group="What to serve")

    port: int = knob(
        DEFAULT_PORT,
        "port to listen on (0: any free one, printed), or to dial where SIM_SERVER_PORT is not set",
        group="Listening (the simulator dials)",
        reason="29500-29999 is the range these programs use",
        for_policy=True,
        ge=0,
        le=65535,
    )
    model_server_bind: str = knob(
        "localhost",
        "interface to listen on; 0.0.0.0 lets other machines in",
        group="Listening (the simulator dials)",
        env="MODEL_SERVER_BIND",
        reason="a policy server is nobody else's business unless you say so",
        metavar="HOST",
        for_policy=False,
    )

    model_as_client: bool = knob(
        False,
        "dial the simulator instead of listening",
        group="Dialing (the simulator listens)",
        env="MODEL_AS_CLIENT",
        for_policy=False,
    )
    sim_server_host: str = knob(
        "localhost",
        "host of the simulator to dial",
        group="Dialing (the simulator listens)",
        env="SIM_SERVER_HOST",
        for_policy=False,
    )
    sim_server_port: int | None = knob(
        None,
        "port of the simulator to dial; beats --port",
        group="Dialing (the simulator listens)",
        env="SIM_SERVER_PORT",
        ge=1,
        le=65535,
        for_policy=False,
    )
    model_client_max_attempts: int = knob(
        ATTEMPTS,
        "times to dial before giving up; a malformed address fails at once, a name that does not resolve after "
        f"{NAME_ATTEMPTS} tries",
        group="Dialing (the simulator listens)",
        env="MODEL_CLIENT_MAX_ATTEMPTS",
        reason="over an hour: the simulator's job may wait in a queue",
        ge=1,
        for_policy=False,
    )

    model_client_retry_seconds: float = knob(
        INTERVAL,
        "seconds between two attempts to dial",
        group="Dialing (the simulator listens)",
        reason="what RoboPRO's scripts wait",
        gt=0,
        for_policy=False,
    )

    max_batch: int = knob(
        UNBATCHED,
        "most get_action calls of different simulators in one inference, for a policy that can batch; only calls that "
        "are in the queue at the same time, none is waited for",
        group="Serving several simulators",
        reason="a batched inference may differ from an unbatched one in the last bits",
        ge=1,
        for_policy=False,
    )
    max_connections: int = knob(
        MAX_CONNECTIONS,
        "connections held at a time, those included that wait for their turn or have not asked anything; where there "
        "are too many, the ones that never asked go first (with a token: that did not show it)",
        group="Serving several simulators",
        reason="more than the simulators one model can feed, less than what a port scanner opens",
        ge=1,
        for_policy=False,
    )

    policy_hang_timeout: float = knob(
        HANG_SECONDS,
        "seconds after which a call of the policy counts as hung: the stacks of all threads are printed and the "
        "program exits with 1; 0: never",
        group="Limits",
        reason="three times the 600 s a simulator waits for a reply, so that a first call that compiles is no hang",
        ge=0,
        for_policy=False,
    )
    max_frame_mib: int = knob(
        DEFAULT_MAX_FRAME >> 20,
        "largest message taken, in MiB; a bigger one is refused from its header",
        group="Limits",
        reason="seven cameras with float64 depth are about 30 MiB; 4 GiB would be what a stray client can ask for",
        ge=1,
        le=4095,
        for_policy=False,
    )
    status_seconds: float = knob(
        STATUS_EVERY,
        "seconds between two lines that say what is waited for, here and to a simulator that waits for its turn",
        group="Limits",
        reason="often enough to be reassuring, rare enough for an overnight log",
        gt=0,
        for_policy=False,
    )
    stop_seconds: float = knob(
        STOP_SECONDS,
        "seconds a running call of the policy gets to finish after Ctrl-C; a second Ctrl-C ends at once",
        group="Limits",
        reason="long enough for an inference, short enough for a person",
        ge=0,
        le=60,
        for_policy=False,
    )

    verbose: bool = knob(
        False, "also log who came and went (-v); every call with -vv", group="What is shown", for_policy=False
    )
    debug: bool = knob(False, "tracebacks, and everything -vv shows", group="What is shown", for_policy=False)

    @property
    def max_frame(self) -> int:
        """Largest message, bytes."""
        return self.max_frame_mib << 20
