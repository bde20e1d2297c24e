"""Whatever a peer sends: only the errors of the wire come out, and memory follows the bytes that arrived.

The targets and their promises are those of `scripts/fuzz_wire.py`, which hunts by coverage for as long as one likes;
here hypothesis tries some hundred inputs of three sorts each time.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.append(str(SCRIPTS))

import fuzz_wire_targets as targets  # noqa: E402
from fuzz_wire_seeds import WORDS, seeds  # noqa: E402

from framing.errors import PolicyError  # noqa: E402
from framing.session import ResponderSession, State  # noqa: E402

NAMES = sorted(targets.TARGETS)
SEEDS = {name: seeds(name) for name in NAMES}


@pytest.fixture(autouse=True, scope="module")
def _counting_memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def attack(name: str, data: bytes) -> None:
    targets.measured(targets.TARGETS[name], data)


# ---------------------------------------------------------------- the inputs
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([2**31, 2**63, -(2**70), 10**400, 0.5, float("nan"), float("inf"), ""]),
    st.sampled_from([word[1:-1].decode() for word in WORDS if word.startswith(b'"') and word.endswith(b'"')]),
    st.text(max_size=4),
)
_DTYPES = st.sampled_from(
    ["uint8", "<f4", ">f8", "bool", "|b1", "<U2", "|S3", "<M8[ns]", "object", "O", "V4", "f4,u1", "U99999999", "M8[0s]"]
)
_SIZES = st.sampled_from([0, 1, 2, 3, 4, 2**31, 2**62, 2**64, -1, True, 1.0, "2"])
_DESCRIPTORS = st.fixed_dictionaries(
    {"__numpy_array__": st.sampled_from([True, "buffer", "bytes", "pairs", 1])},
    optional={
        "data": st.sampled_from(["", "AAAA", "AAA=", "A", "@0", "A" * 200]),
        "dtype": _DTYPES,
        "shape": st.lists(_SIZES, max_size=3),
        "size": _SIZES,
        "pairs": st.lists(st.tuples(st.sampled_from(["a", "__numpy_array__"]), _SCALARS), max_size=2),
    },
)
_NAMES = (
    "cmd obs id accept args kwargs res error kind timing policy wire wait name methods attributes episode_id "
    "episode place of nonce proof data"
)
_KEYS = st.sampled_from(_NAMES.split())
_TREES = st.recursive(
    st.one_of(_SCALARS, _DESCRIPTORS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=6)),
    max_leaves=8,
)
_MESSAGES = st.one_of(
    st.builds(lambda tree: json.dumps(tree).encode(), _TREES),
    st.builds(lambda tree, rest: targets.ASSEMBLED + json.dumps(tree).encode() + b"\0" + rest, _TREES, st.binary()),
)
STRUCTURED = st.builds(
    lambda first, messages: bytes([first]) + targets.SEPARATOR.join(messages),
    st.integers(0, 7),
    st.lists(_MESSAGES, min_size=1, max_size=4),
)


@st.composite
def mutated(draw: st.DrawFn, name: str) -> bytes:
    """A real input with a few bytes changed, lost, repeated, or words of the wire put in."""
    data = bytearray(draw(st.sampled_from(SEEDS[name])))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["set", "lose", "word", "repeat"])):
            case "set":
                data[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case "lose":
                del data[at : at + draw(st.integers(1, 40))]
            case "word":
                data[at:at] = draw(st.sampled_from(WORDS))
            case _:
                data[at:at] = data[at : at + draw(st.integers(1, 200))]
    return bytes(data)


# ---------------------------------------------------------------- the promises
@pytest.mark.parametrize("name", NAMES)
def test_real_messages_keep_every_promise(name: str) -> None:
    assert len(SEEDS[name]) > 1
    for seed in SEEDS[name]:
        attack(name, seed)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.binary(max_size=300))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes(name: str, data: bytes) -> None:
    attack(name, data)


@pytest.mark.parametrize("name", NAMES)
@given(data=STRUCTURED)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_messages_of_the_right_words_in_the_wrong_places(name: str, data: bytes) -> None:
    attack(name, data if name not in ("json", "binary") else data[1:])


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_real_messages_with_something_wrong(name: str, data: Any) -> None:
    attack(name, data.draw(mutated(name)))


def test_the_real_messages_reach_the_far_end_of_each_session() -> None:
    """Else their mutations would all die at the door."""
    ends = [State.DONE, State.STOCK_IDLE, State.OURS_IDLE, State.OURS_IDLE]
    for seed, end in zip(SEEDS["requester"], ends, strict=False):
        ask = targets.beginning(seed[0])
        for number, body in enumerate(targets.messages(seed[1:])):
            targets.ask_something(ask, number)
            with contextlib.suppress(PolicyError):
                ask.receive(body)
        assert ask.state is end
    for seed in SEEDS["responder"]:
        answer = ResponderSession(targets.FEATURES)
        for body in targets.messages(seed):
            answer.receive(body)
            answer.result(None)
        assert answer.state in (State.DONE, State.STOCK_IDLE)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (lambda body: {}[1], KeyError),
        (lambda body: bytes(len(body) * 1000).count(1), targets.TooMuchMemory),
        (lambda body: [1], targets.Broken),
    ],
    ids=["another error", "memory", "another value"],
)
def test_a_reader_that_breaks_a_promise_is_caught(
    broken: Callable[[bytes], object], promise: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "decode", broken)
    with pytest.raises(promise):
        attack("json", b'{"a": ' + b" " * 1000 + b"1}")


# ---------------------------------------------------------------- the script
def script(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "fuzz_wire.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_an_input_that_was_found_is_run_again_from_its_file(tmp_path: Path) -> None:
    found = tmp_path / "json-crash-1"
    found.write_bytes(b'{"a": [1')
    done = script("--reproduce", found, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "json: no error; 0.0 bytes of memory per byte of input\n")
    other = tmp_path / "crash-1"
    other.write_bytes(b"")
    done = script("--reproduce", other, cwd=tmp_path)
    assert done.returncode == 2
    assert "does not begin with the name of a target" in done.stderr


def test_a_target_that_is_none_is_refused(tmp_path: Path) -> None:
    done = script("--target", "yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "frames, json, binary, requester, responder, auth" in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("atheris") is not None, reason="atheris is installed here")
def test_without_atheris_the_way_to_it_is_said(tmp_path: Path) -> None:
    done = script("--seconds", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: atheris is not installed here; run `python3 -m venv")
    assert not list(tmp_path.iterdir())
