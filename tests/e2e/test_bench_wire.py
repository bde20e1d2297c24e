"""The wire benchmark as a person runs it: what it writes down is true of the bytes, and nothing of it stays behind.

Never how fast anything is: that depends on the machine and on what else runs on it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

REPO = Path(__file__).resolve().parents[2]
SCRIPT = REPO / "scripts" / "bench_wire.py"
sys.path.append(str(REPO / "scripts"))

from wire_benchmark import report, stages  # noqa: E402 - from scripts/, which is no package
from wire_benchmark.measure import Quartiles, Result  # noqa: E402
from wire_benchmark.observations import PAYLOADS, Chunks, Observation, digest  # noqa: E402

OWN_ARMS = ["floor", "binary", "json", "to-stock", "from-stock", "stock", "waiting", "paired"]
VIEWS_BYTES = 3 * 240 * 320 * 3 + 20 * 4 + 3 * 3 * 4 * 4 + 3 * 3 * 3 * 4
CHUNK_BYTES = 30 * 20 * 4


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    to = tmp_path_factory.mktemp("bench") / "speed.json"
    done = bench("--quick", "--rounds", "2", "--arms", ",".join(OWN_ARMS), "--json", str(to))
    assert done.returncode == 0, done.stderr
    everything: dict[str, Any] = json.loads(to.read_text())
    return everything


def test_every_arm_is_measured_with_its_spread_and_its_ratio(measured: dict[str, Any]) -> None:
    assert [result["arm"] for result in measured["results"]] == OWN_ARMS
    for result in measured["results"]:
        assert result["payload"] == "views"
        assert result["steps"] >= 4
        for quartiles in (result["seconds"], result["ratio"]):
            assert 0 < quartiles["low"] <= quartiles["median"] <= quartiles["high"]
        assert result["cpu_seconds"] > 0
    assert measured["results"][0]["ratio"]["median"] == 1
    assert {"date", "commit", "machine", "python", "packages"} <= measured["about"].keys()


def test_the_bytes_are_those_of_the_payload_as_each_format_writes_them(measured: dict[str, Any]) -> None:
    up = {result["arm"]: result["bytes_up"] for result in measured["results"]}
    down = {result["arm"]: result["bytes_down"] for result in measured["results"]}
    assert all(result["array_bytes_up"] == VIEWS_BYTES for result in measured["results"])
    assert (up["floor"], down["floor"]) == (VIEWS_BYTES, CHUNK_BYTES)
    assert VIEWS_BYTES < up["binary"] < VIEWS_BYTES + 2000
    assert CHUNK_BYTES < down["binary"] < CHUNK_BYTES + 500
    for arm in ("waiting", "paired"):  # a second request and a second reply, both small
        assert up["binary"] < up[arm] < VIEWS_BYTES + 2500
        assert down["binary"] < down[arm] < CHUNK_BYTES + 1000
    assert up["waiting"] < up["paired"]  # the second request names the one that it did not wait for
    for arm in ("json", "to-stock", "from-stock", "stock"):  # base64 is four characters for three bytes
        assert VIEWS_BYTES * 4 / 3 < up[arm] < VIEWS_BYTES * 4 / 3 + 2000
        assert CHUNK_BYTES * 4 / 3 < down[arm] < CHUNK_BYTES * 4 / 3 + 500


def test_a_wrong_reply_would_not_pass() -> None:
    chunks, observation = Chunks(), Observation(PAYLOADS["views"])
    observation.number(7)
    right = chunks.of(observation.flat["1"])
    assert chunks.fault(right, 7) is None
    assert "other numbers" in (chunks.fault(right, 8) or "")  # the reply to another step
    assert "float64" in (chunks.fault(right.astype(np.float64), 7) or "")
    assert "NoneType" in (chunks.fault(None, 7) or "")


def test_the_digest_sees_every_array() -> None:
    whole = Observation(PAYLOADS["depth"]).flat
    assert digest(whole) == digest(dict(reversed(whole.items())))
    for name, array in whole.items():
        assert digest({**whole, name: array[None]}) != digest(whole)
        assert digest({**whole, name: array.view(f"S{array.dtype.itemsize}")}) != digest(whole)
        changed = array.copy()
        changed.reshape(-1).view(np.uint8)[-1] ^= 1
        assert digest({**whole, name: changed}) != digest(whole)


def test_a_step_is_split_where_the_notes_say() -> None:
    places = [stage.place for stage in stages.STAGES]
    simulator = [(stages.BEGIN, 1000), (places[0], 1010), (places[7], 1500), (places[8], 1540), (stages.END, 1600)]
    model = [(places[index], 1100 + 50 * index) for index in range(1, 7)]
    split = list(stages.split(simulator, [("before any step", 1), *model, (places[6], 5000)]).values())
    assert split == pytest.approx([value * 1e-9 for value in (10, 140, 50, 50, 50, 50, 50, 100, 40, 60)])


def result(arm: str, milliseconds: float, ratio: float) -> Result:
    near = (milliseconds / 1000 * factor for factor in (0.9, 1, 1.1))
    around = Quartiles(ratio * 0.9, ratio, ratio * 1.1)
    return Result(arm, "views", 100, Quartiles(*near), around, 0.001, VIEWS_BYTES, VIEWS_BYTES, 2660, (10**6, 10**6))


def test_targets_are_met_or_missed_by_the_numbers() -> None:
    results = [
        result("binary", 0.5, 1.3),
        result("json", 0.9, 2.5),
        result("stock", 49, 140),
        result("to-stock", 5, 14),
    ]
    said = [str(target) for target in report.targets({one.arm: one for one in results})]
    assert said == [
        "ours, binary body, times the floor: 1.30 (at most 1.4: met)",
        "ours, stock body, times the floor: 2.50 (at most 2: missed)",
        "ours, binary body, times faster than RoboPRO's own pair: 98.00 (at least 3: met)",
        "our simulator, stock model, times faster than RoboPRO's own pair: 9.80 (at least 10: missed)",
        "ours, binary body, peak memory in frames: 1.45 (at most 2: met)",
    ]


def test_the_pages_show_the_numbers_of_the_file() -> None:
    """What the README and the page say was measured, and not edited since."""
    kept = report.Report.load(REPO / "docs" / "results" / "wire_speed.json")
    assert (REPO / "docs" / "results" / "wire_speed.md").read_text("utf-8") == report.page(kept)
    readme = (REPO / "README.md").read_text("utf-8")
    assert report.with_part(readme, report.readme_part(kept)) == readme


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--arms", "binary,carrier-pigeon"], "carrier-pigeon: no such arm; there are floor, binary"),
        (["--payloads", "movie"], "movie: no such payload; there are views, large, depth, chunk"),
        (["--profile", "stock"], "stock: cannot be profiled; there are binary, json"),
        (["--readme", "--json", "nowhere.json"], "nowhere.json is not there; make it with"),
        (["--rounds", "0"], "Invalid value for '--rounds'"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(arguments: list[str], sentence: str) -> None:
    done = bench(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr


@contextmanager
def endless(**options: Any) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A benchmark that would run for hours, and descriptors of its four programs."""
    arguments = ["--arms", "floor,stock", "--payloads", "chunk", "--rounds", "1000000"]
    with subprocess.Popen([sys.executable, str(SCRIPT), *arguments], text=True, **options) as running:
        try:
            children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
            while len(programs := children.read_text().split()) < 4:
                assert running.poll() is None
                time.sleep(0.02)  # nothing tells of a grandchild
            yield running, [os.pidfd_open(int(pid)) for pid in programs]
        finally:
            running.kill()


def assert_ended(programs: list[int]) -> None:
    for descriptor in programs:
        assert select.select([descriptor], [], [], 30)[0], "a program outlived the benchmark"
        os.close(descriptor)


def test_ctrl_c_leaves_no_program_behind() -> None:
    with endless(stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as (running, programs):
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
        assert running.returncode == 130
        assert said == "error: interrupted by Ctrl-C\n"
        assert_ended(programs)


def test_killed_it_takes_its_programs_along() -> None:
    with endless(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as (running, programs):
        running.kill()
        assert_ended(programs)
