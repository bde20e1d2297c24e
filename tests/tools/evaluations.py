"""One evaluation under test: its simulator and its models, started as a user starts them, and what they wrote.

Both programs are told to look for each other often, so that a test which ends one of them need not wait. The ``nudge``
policy plays, whose final state tells whether a model saw an episode whole; its diary says the same in so many words.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from namespaces import Host
from programs import BIN, NUDGE, PATIENCE, Program, clean_environ, free_port, metrics_of

from robopro_eval.records import DETERMINISTIC_FIELDS, read_jsonl

Direction = Literal["sim-server", "model-server"]
DIRECTIONS: tuple[Direction, ...] = ("sim-server", "model-server")

SCENE = ("--task_name", "put_cup_in_box", "--task_config", "bench_demo_study_clean")
QUERIES = 3
STEP_LIMIT = 30 * QUERIES
"""Actions per episode: so many queries of the nudge policy, enough for a middle and an end."""

EVENTS = ("begin", *("observation", "action") * QUERIES)
"""What a model's diary says of an episode that it saw whole."""

Record = dict[str, object]


@dataclass
class Evaluation:
    """Made for one direction: ``sim-server`` (the simulator listens) or ``model-server``.

    ``sim_host`` and ``model_host`` put the programs into network namespaces; without them both run on this machine.
    """

    folder: Path
    seeds: Sequence[int]
    direction: Direction = "sim-server"
    sim_host: Host | None = None
    model_host: Host | None = None
    port: int = field(default_factory=free_port)
    shares_model_of: Evaluation | None = None
    """Another evaluation whose model serves this simulator too, and writes its diary."""

    def __post_init__(self) -> None:
        if self.shares_model_of is not None:
            self.port = self.shares_model_of.port
        self.folder.mkdir(parents=True, exist_ok=True)
        self._seed_file.write_text("\n".join(map(str, self.seeds)))

    @property
    def diary_file(self) -> Path:
        return (self.shares_model_of or self).folder / "diary.jsonl"

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def _seed_file(self) -> Path:
        return self.folder / "seeds.txt"

    def simulator(self, *words: str, **variables: str) -> Program:
        """Start the simulator, with more flags and variables of its own. Use it as a context manager."""
        argv: list[str | Path] = [BIN / "eval-sim", "--policy_name", NUDGE, *SCENE, "--no-video"]
        argv += ["--eval_seed_file", self._seed_file, "--step_lim", str(STEP_LIMIT)]
        argv += ["--port", str(self.port), "--connect_interval", "0.3"]
        environ = {"RUNS_ROOT": str(self.runs)}
        if self.direction == "sim-server":
            environ |= {"SIM_AS_SERVER": "1", "SIM_SERVER_BIND": "localhost" if self.sim_host is None else "0.0.0.0"}
        elif self.model_host is not None:
            environ["MODEL_SERVER_HOST"] = self.model_host.name
        return _start([*argv, *words], environ | variables, self.sim_host)

    def model(self, *words: str, **settings: object) -> Program:
        """Start a model, with more flags; ``settings`` are the nudge policy's."""
        argv: list[str | Path] = [BIN / "eval-model", "--policy_name", NUDGE, "--port", str(self.port)]
        argv += ["--model_client_retry_seconds", "0.3", *words, "--overrides", "--diary", self.diary_file]
        for name, value in settings.items():
            argv += [f"--{name}", str(value)]
        environ = {}
        if self.direction == "sim-server":
            environ = {"MODEL_AS_CLIENT": "1"}
            if self.sim_host is not None:
                environ["SIM_SERVER_HOST"] = self.sim_host.name
        elif self.model_host is not None:
            environ["MODEL_SERVER_BIND"] = "0.0.0.0"
        return _start(argv, environ, self.model_host)

    def local(self, *overrides: str) -> Program:
        """The same run in one process, without a socket."""
        return self.simulator("--local", "--overrides", "--diary", str(self.diary_file), *overrides)

    def metrics(self) -> list[Record]:
        """The scored episodes so far."""
        return read_jsonl(metrics_of(self.runs)) if any(self.runs.rglob("_metrics.jsonl")) else []

    def attempts(self) -> list[Record]:
        """All attempts so far."""
        return [line for path in self.runs.rglob("_attempts.jsonl") for line in read_jsonl(path)]

    def fields(self) -> list[Record]:
        """What has to repeat exactly of every scored episode, in the order in which they were scored."""
        return [{name: line[name] for name in DETERMINISTIC_FIELDS} for line in self.metrics()]

    def diary(self) -> list[Record]:
        """What the models wrote about episodes, in order; resets outside episodes are left out."""
        return [line for line in read_jsonl(self.diary_file) if line["episode"] is not None]

    def seen(self, seed: int, attempt: int) -> tuple[set[object], list[object]]:
        """Which processes saw an attempt, and the events they wrote since it last began."""
        lines = [line for line in self.diary() if str(line["episode"]).endswith(f"/{seed}#{attempt}")]
        begins = [position for position, line in enumerate(lines) if line["event"] == "begin"]
        lines = lines[begins[-1] :] if begins else []
        return {line["process"] for line in lines}, [line["event"] for line in lines]


def _start(argv: Sequence[str | Path], variables: dict[str, str], host: Host | None) -> Program:
    return Program(argv if host is None else host.command(*argv), env=clean_environ(**variables))


def check_whole(evaluation: Evaluation, undisturbed: Sequence[Record]) -> None:
    """Every seed was scored once, with the undisturbed run's result, by one model that saw the episode from its first
    observation to its last action; every attempt left a line, and every invalid one its reason."""
    assert evaluation.fields() == list(undisturbed)
    for line in evaluation.metrics():
        seed, attempt = line["seed"], line["attempt"]
        assert isinstance(seed, int)
        assert isinstance(attempt, int)
        processes, events = evaluation.seen(seed, attempt)
        assert len(processes) == 1, f"seed {seed} attempt {attempt} was seen by {processes}"
        assert events == list(EVENTS), f"seed {seed} attempt {attempt}"
        attempts = [entry for entry in evaluation.attempts() if entry["seed"] == seed]
        assert [entry["attempt"] for entry in attempts] == list(range(1, attempt + 1))
        assert [entry["outcome"] for entry in attempts] == ["invalid"] * (attempt - 1) + ["scored"]
        assert all(entry["error"] and entry["reason"] for entry in attempts[:-1])


def wait_until(condition: Callable[[], bool], what: str, *alive: Program, timeout: float = PATIENCE) -> None:
    """Wait for something that programs write into files; fails when one of ``alive`` ends before it is there."""
    deadline = time.monotonic() + timeout
    while not condition():
        for program in alive:
            if not program.is_running() and not condition():
                raise AssertionError(f"no {what}: {program.argv[0]} ended\n{program.output}")
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what} within {timeout:g} s")
        time.sleep(0.01)
