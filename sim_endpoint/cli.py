"""``eval-sim``: one command, one run (or, with ``--serve_forever``, one run per model that connects)."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from model_endpoint.dispatcher import Dispatcher
from model_endpoint.loading import find_config, load_model
from robopro_eval.console.errors import EXIT_FAILURE, EXIT_INTERRUPTED, UserError, run_program
from robopro_eval.console.progress import RunProgress
from robopro_eval.console.streams import note, say, use_utf8
from robopro_eval.settings.program import parse_program
from sim_endpoint.connection import ModelLink, make_link
from sim_endpoint.controllers import ExpertController, PolicyController
from sim_endpoint.episode import EpisodeRunner
from sim_endpoint.interrupt import Interruption, first_signal_interrupts, leave_at_once
from sim_endpoint.model_source import LocalModel
from sim_endpoint.preflight import Prepared, prepare, run_doctor
from sim_endpoint.results import ATTEMPTS, METRICS, ResultsFolder
from sim_endpoint.runner import ControllerSupply, FixedSupply, LinkSupply, Run
from sim_endpoint.settings import SimSettings
from sim_endpoint.summary import summary

DESCRIPTION = (
    "Run episodes of a task in simulation and ask a model for the actions: over a socket that either side opens, or "
    "in this process (--local). `eval-sim doctor` checks the machine."
)
EXAMPLES = """examples:
  SIM_AS_SERVER=1 eval-sim --port 29761 --task_name put_cup_in_box --policy_name dxvla     (the model dials)
  eval-sim --port 29761 --task_name put_cup_in_box --policy_name dxvla                     (the model listens)
  eval-sim --expert --test_num 2                                         (no model: an installation check)

exit codes:
  0    the run is whole, whatever the success rate
  1    something failed: no model, too many episodes without a result, no room for results; the last line says what
  2    the command is wrong
  130  stopped by Ctrl-C or SIGTERM; what was measured is saved"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``eval-sim``; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    use_utf8()
    return run_program(lambda: _main(arguments), debug="--debug" in arguments)


def _main(argv: list[str]) -> int:
    if argv[:1] == ["doctor"]:
        return run_doctor(argv[1:])
    settings, usr_args = parse_program(
        SimSettings,
        argv,
        os.environ,
        prog="eval-sim",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        find_config=find_config,
    )
    prepared = prepare(settings, usr_args, os.environ)
    for line in prepared.warnings:
        note(line)
    with first_signal_interrupts() as interruption:
        code = _run(prepared, interruption)
    if code == EXIT_INTERRUPTED:
        # All is written and closed. The signal may have struck inside the simulator, whose destructors then crash.
        leave_at_once(code)
    return code


def _run(prepared: Prepared, interruption: Interruption) -> int:
    settings = prepared.settings
    if prepared.face is None:
        return _one_run(prepared, FixedSupply(ExpertController()), interruption)
    if prepared.local:
        model = load_model(prepared.face, prepared.usr_args)
        source = LocalModel(Dispatcher(prepared.face, model))
        controller = PolicyController(prepared.policy, source, prepared.face.eval, prepared.usr_args)
        return _one_run(prepared, FixedSupply(controller), interruption)
    link = make_link(settings, say, note)
    try:
        link.open()
        if not settings.serve_forever:
            return _one_run(prepared, _link_supply(prepared, link), interruption)
        while True:
            supply = _link_supply(prepared, link)
            if _one_run(prepared, supply, interruption) == EXIT_INTERRUPTED:
                return EXIT_INTERRUPTED
            note("note: waiting for the next model (--serve_forever)")
    finally:
        link.close()


def _link_supply(prepared: Prepared, link: ModelLink) -> LinkSupply:
    assert prepared.face is not None
    return LinkSupply(
        link,
        prepared.policy,
        prepared.face.eval,
        prepared.usr_args,
        peer_wait=prepared.settings.peer_wait,
        note=note,
    )


def _one_run(prepared: Prepared, supply: ControllerSupply, interruption: Interruption) -> int:
    """Wait for the model, play the plan, report. Returns the exit code."""
    settings = prepared.settings
    code = 0
    stopped: str | None = None
    try:
        supply.current()  # nothing is written for a model that never comes
        start = time.perf_counter()
        results = prepared.new_results(os.environ)
        try:
            with RunProgress(settings.task_name, prepared.plan.episodes) as progress:
                spec = prepared.episode_spec(results.path)
                episodes = EpisodeRunner(prepared.env, prepared.benchmark, spec, progress.line)
                stopped = Run(episodes, prepared.plan, results, progress, settings, interruption).play(supply)
            code = EXIT_FAILURE if stopped is not None else 0
        except KeyboardInterrupt:
            stopped, code = "interrupted by Ctrl-C", EXIT_INTERRUPTED
    finally:
        supply.close()
    try:
        results.finish(planned=prepared.plan.episodes, stopped=stopped)
    except UserError as error:  # a full disk; what was scored is to be seen all the same
        note(f"error: {error}")
        code = code or EXIT_FAILURE
    _report(prepared, results, stopped, time.perf_counter() - start)
    return code


def _report(prepared: Prepared, results: ResultsFolder, stopped: str | None, wall_seconds: float) -> None:
    planned = prepared.plan.episodes
    if stopped is not None:
        note(f"error: {stopped}; {len(results.scored)} of {planned} episodes are saved in {results.path}")
    table = summary(
        results.scored,
        benchmark=prepared.benchmark.name,
        task=prepared.settings.task_name,
        config=prepared.config,
        planned=planned,
        wall_seconds=wall_seconds,
        step_lim=prepared.settings.step_lim,
    )
    say(table)
    say(f"metrics  {results.path / METRICS}" if results.scored else "metrics  none")
    if len(results.scored) < results.attempts:
        say(f"attempts {results.path / ATTEMPTS}")
    videos = sum(record.video is not None for record in results.scored)
    say(f"videos   {results.path}/seed*.mp4 ({videos})" if videos else "videos   none")
