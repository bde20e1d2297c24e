"""``eval-model``: serve a policy to a simulator."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from model_endpoint.own_packages import ShadowedPackage, check_own_packages

PROG = "eval-model"
DESCRIPTION = (
    "Load a policy and answer a simulator's requests over one TCP socket: by default it listens and the simulator "
    "dials; with MODEL_AS_CLIENT=1 it dials a simulator that listens."
)
EPILOG = """examples:
  eval-model --policy_name dxvla --ckpt_setting demo --port 29761
  MODEL_AS_CLIENT=1 SIM_SERVER_HOST=node-a SIM_SERVER_PORT=29761 eval-model --policy_name dxvla --ckpt_setting demo
  eval-model --port 29761 --config policy/dxvla/deploy_policy.yml --overrides --policy_name dxvla --seed 0

exit codes:
  0    the simulator said it is done (MODEL_AS_CLIENT)
  1    something failed; the last line says what
  2    the command is wrong
  130  stopped by Ctrl-C (143 by SIGTERM); a second Ctrl-C does not wait for a running call"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; ``argv`` is without its name. Returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        check_own_packages()
    except ShadowedPackage as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    from robopro_eval.console.errors import run_program
    from robopro_eval.console.streams import use_utf8

    use_utf8()
    return run_program(lambda: _run(arguments), debug="--debug" in arguments)


def _run(arguments: list[str]) -> int:
    from model_endpoint.loading import find_config, find_policy
    from model_endpoint.settings import ModelSettings
    from robopro_eval.settings.program import parse_program

    arguments, verbosity = _take_v(arguments)
    settings, usr_args = parse_program(
        ModelSettings,
        arguments,
        os.environ,
        prog=PROG,
        description=DESCRIPTION,
        epilog=EPILOG,
        find_config=find_config,
    )
    folder = find_policy(settings.policy_name)

    from model_endpoint import logs, program  # trio and the network: not needed for --help and wrong commands

    logs.set_up(2 if settings.debug else max(verbosity, int(settings.verbose)))
    return program.run(settings, folder, usr_args)


def _take_v(arguments: list[str]) -> tuple[list[str], int]:
    """``-v`` and ``-vv``, which are no ``--name value``, taken out; what follows ``--overrides`` is left alone."""
    end = arguments.index("--overrides") if "--overrides" in arguments else len(arguments)
    counts = {"-v": 1, "-vv": 2}
    verbosity = sum(counts.get(word, 0) for word in arguments[:end])
    return [word for index, word in enumerate(arguments) if index >= end or word not in counts], verbosity


if __name__ == "__main__":
    sys.exit(main())
