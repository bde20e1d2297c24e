from __future__ import annotations

import collections
import functools
import json
import types
from pathlib import Path

import numpy as np
import pytest

from framing.errors import PolicyError
from model_endpoint.dispatcher import Dispatcher, to_plain
from model_endpoint.loading import PolicyFace, PolicyLoadError
from model_endpoint.policy import Policy


def face_with(**functions: object) -> PolicyFace:
    module = types.ModuleType("deploy_policy")
    vars(module).update(functions)
    return PolicyFace("toy", Path("/policies/toy"), module)


class Toy:
    """A policy with one of everything."""

    PARAMETER = 3

    def __init__(self) -> None:
        self.observation_window = None
        self.obs_cache = collections.deque([1, 2, 3])
        self.env_runner = types.SimpleNamespace(obs=[{"rgb": np.zeros(2)}], _secret=5, library=json)
        self.stats = {"left": {"mean": 0.5}, "_hidden": 1}
        self.late = functools.partial(divmod, 7)
        self.net = Net()
        self.kind = Net
        self.generator = (i for i in range(3))
        self.count = 0

    def reset_model(self) -> str:
        self.count = 0
        return "reset"

    def add(self, a: float, b: float = 10) -> float:
        return a + b

    def explode(self) -> None:
        raise ValueError("too hot")

    def leave(self) -> None:
        raise SystemExit(3)

    @property
    def ratio(self) -> float:
        return 0.25

    @property
    def brittle(self) -> float:
        raise AttributeError("no camera yet")

    @staticmethod
    def static(x: int) -> int:
        return x + 1

    @classmethod
    def parameter(cls) -> int:
        return cls.PARAMETER

    def _private(self) -> None:
        raise AssertionError("must never be reached")


class Net:
    """Something that can be called but is no method, like a network."""

    def __call__(self) -> None:
        raise AssertionError("must never be reached")


@pytest.fixture
def toy() -> Dispatcher:
    return Dispatcher(face_with(), Toy())


def test_positional_and_keyword_arguments(toy: Dispatcher) -> None:
    assert toy.call("add", (1,)) == 11
    assert toy.call("add", (1, 2)) == 3
    assert toy.call("add", [1], {"b": 5}) == 6
    assert toy.call("static", (1,)) == 2
    assert toy.call("parameter") == 3
    assert toy.call("late", (2,)) == [3, 1]


@pytest.mark.parametrize(
    "cmd",
    [
        "_private",
        "__init__",
        "__setattr__",
        "__class__",
        "net",
        "kind",
        "count",
        "nothing",
        "env_runner.obs.append",
        "",
    ],
)
def test_only_public_methods_can_be_called(toy: Dispatcher, cmd: str) -> None:
    with pytest.raises(PolicyError) as caught:
        toy.call(cmd)
    assert caught.value.kind == "unknown_method"
    assert f"no public method {cmd!r}" in str(caught.value)
    assert "it has: add, explode, late, leave, parameter, reset_model, static" in str(caught.value)


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, 2, 3), {}), ((1,), {"c": 2}), ((1,), {"a": 2})])
def test_arguments_that_do_not_fit_are_told_with_the_signature(
    toy: Dispatcher, args: tuple[int, ...], kwargs: dict[str, int]
) -> None:
    with pytest.raises(PolicyError, match=r"toy\.add\(a: .*, b: .*\) .* does not take what was sent") as caught:
        toy.call("add", args, kwargs)
    assert caught.value.kind == "bad_arguments"


def test_what_the_policy_raises_comes_with_its_traceback(toy: Dispatcher) -> None:
    with pytest.raises(PolicyError, match=r"toy\.explode\(\) failed: ValueError: too hot") as caught:
        toy.call("explode")
    assert caught.value.kind == "policy_error"
    text = caught.value.remote_traceback
    assert text is not None
    assert 'raise ValueError("too hot")' in text
    assert text.rstrip().endswith("ValueError: too hot")
    assert "model_endpoint/dispatcher.py" not in text.replace("tests/model_endpoint", "")
    with pytest.raises(PolicyError, match="SystemExit: 3"):
        toy.call("leave")


def test_what_is_no_exception_is_the_policys_fault_too_but_not_ctrl_c() -> None:
    """A panic in a library written in Rust and asyncio's CancelledError are BaseExceptions."""

    class Panic(BaseException):
        pass

    class Fragile:
        def reset_model(self) -> None:
            raise Panic("index out of range")

        @property
        def window(self) -> object:
            raise Panic("unwrap of None")

        def act(self) -> None:
            raise KeyboardInterrupt

    fragile = Dispatcher(face_with(), Fragile())
    with pytest.raises(PolicyError, match=r"reset_model\(\) failed: Panic: index out of range"):
        fragile.call("reset_model")
    with pytest.raises(PolicyError, match="failed: Panic: unwrap of None"):
        fragile.get("window")
    with pytest.raises(KeyboardInterrupt):
        fragile.call("act")


def test_a_type_error_inside_the_policy_is_not_blamed_on_the_arguments() -> None:
    class Confused:
        def reset_model(self) -> None:
            len(3)  # type: ignore[arg-type]

    with pytest.raises(PolicyError) as caught:
        Dispatcher(face_with(), Confused()).call("reset_model")
    assert caught.value.kind == "policy_error"


def test_reset_is_the_method_else_the_modules_function_else_another_spelling() -> None:
    seen: list[object] = []
    model = Toy()
    assert Dispatcher(face_with(reset_model=seen.append), model).call("reset_model") == "reset"
    assert seen == []

    class Bare:
        pass

    bare = Bare()
    Dispatcher(face_with(reset_model=seen.append), bare).call("reset_model")
    assert seen == [bare]

    class Pi0:
        def reset_obsrvationwindows(self) -> str:  # the spelling RoboPRO's wrappers have
            return "misspelt"

    assert Dispatcher(face_with(), Pi0()).call("reset_model") == "misspelt"
    with pytest.raises(PolicyLoadError, match=r"cannot be reset between episodes: add `def reset_model\(model\)`"):
        Dispatcher(face_with(), Bare())


def test_the_modules_reset_may_reach_anywhere_in_the_model() -> None:
    """DP3 and ACT: nested reset and attribute writes, possible because they run where the model is."""

    def reset_model(model: Toy) -> None:
        model.env_runner.obs.clear()
        model.count = -1

    model = types.SimpleNamespace(env_runner=types.SimpleNamespace(obs=[1, 2]), count=5)
    dispatcher = Dispatcher(face_with(reset_model=reset_model), model)
    assert dispatcher.get("env_runner.obs", length=True) == 2
    dispatcher.call("reset_model")
    assert dispatcher.get("env_runner.obs", length=True) == 0
    assert dispatcher.get("count") == -1


def test_features_tell_methods_from_data(toy: Dispatcher) -> None:
    features = toy.features()
    assert features.policy_name == "toy"
    assert features.methods == {"add", "explode", "late", "leave", "parameter", "reset_model", "static"}
    assert features.attributes >= {"observation_window", "obs_cache", "ratio", "stats", "PARAMETER", "net"}
    assert "kind" not in features.attributes


def test_a_reset_function_of_the_module_is_a_method_to_the_peer() -> None:
    assert "reset_model" in Dispatcher(face_with(reset_model=id), Net()).features().methods


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("observation_window", None),
        ("obs_cache", [1, 2, 3]),
        ("ratio", 0.25),
        ("PARAMETER", 3),
        ("stats", {"left": {"mean": 0.5}, "_hidden": 1}),
        ("stats.left.mean", 0.5),
        ("obs_cache.1", 2),
    ],
)
def test_data_are_read(toy: Dispatcher, path: str, value: object) -> None:
    assert toy.get(path) == value


def test_length(toy: Dispatcher) -> None:
    assert toy.get("obs_cache", length=True) == 3
    assert toy.get("env_runner.obs", length=True) == 1
    with pytest.raises(PolicyError, match=r"reading 'ratio' .* failed: TypeError: .*no len"):
        toy.get("ratio", length=True)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("_private", "is private"),
        ("stats._hidden", "is private"),
        ("env_runner._secret", "is private"),
        ("__class__", "is private"),
        ("count.__class__", "is private"),
        ("stats..mean", "is private"),
        ("", "is private"),
        ("add", "is a method: call it"),
        ("add.x", "is a method: call it"),
        ("stats.keys", "no such key"),
        ("obs_cache.9", "only 3 items"),
        ("obs_cache.append", "is a method"),
        ("env_runner.library", "is a module"),
        ("env_runner.library.dumps", "is a module"),
        ("kind", "is a type"),
        ("generator", "is a generator"),
        ("generator.gi_frame", "is a generator"),
        ("missing", "no attribute 'missing'; there is: .*obs_cache"),
        ("brittle", "AttributeError: no camera yet"),
    ],
)
def test_what_cannot_be_read_says_why(toy: Dispatcher, path: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        toy.get(path)


def test_begin_episode_reaches_a_policy_that_wants_it(toy: Dispatcher) -> None:
    toy.begin_episode({"id": "x"})  # this one does not

    class Curious:
        info: object = None

        def begin_episode(self, info: dict[str, object]) -> None:
            self.info = info

        def reset_model(self) -> None:
            pass

    model = Curious()
    Dispatcher(face_with(), model).begin_episode({"id": "cell/3#1", "task": "t", "seed": 3})
    assert model.info == {"id": "cell/3#1", "task": "t", "seed": 3}


class Sessions:
    """A model that makes sessions, or cannot."""

    def __init__(self, made: object = None) -> None:
        self.made = made

    def new_session(self) -> object:
        if self.made is None:
            raise MemoryError("no room")
        return self.made

    def reset_model(self) -> None:
        raise AssertionError("the session is reset, not the model")


def test_with_new_session_the_session_takes_the_models_place() -> None:
    toy, reset = Toy(), []
    dispatcher = Dispatcher(face_with(), Sessions(toy))
    assert dispatcher.has_own_session
    assert dispatcher.call("add", (1, 2)) == 3
    assert dispatcher.get("ratio") == 0.25
    assert "new_session" not in dispatcher.features().methods
    Dispatcher(face_with(reset_model=reset.append), Sessions(Net())).call("reset_model")
    assert isinstance(reset[0], Net)
    with pytest.raises(PolicyLoadError, match="cannot be reset"):
        Dispatcher(face_with(), Sessions(Net()))


def test_results_of_a_session_are_copies_and_those_of_a_model_are_not() -> None:
    class Shows:
        buffer = np.zeros(3)

        def reset_model(self) -> None:
            pass

        def look(self) -> object:
            return {"deep": [self.buffer]}

    for model, copied in ((Shows(), False), (Sessions(Shows()), True)):
        dispatcher = Dispatcher(face_with(), model)
        for value in (dispatcher.call("look")["deep"][0], dispatcher.get("buffer")):  # type: ignore[index]
            assert np.shares_memory(value, Shows.buffer) is not copied


def test_a_session_that_cannot_be_made_is_no_verdict_on_the_policy() -> None:
    with pytest.raises(PolicyError, match=r"toy\.new_session\(\) failed: MemoryError: no room") as caught:
        Dispatcher(face_with(), Sessions())
    assert caught.value.kind == "stale_episode"
    with pytest.raises(PolicyLoadError, match="no room"):
        Policy(face_with(), Sessions())


def test_a_wrapper_lends_the_methods_and_data_of_what_it_wraps() -> None:
    class Wrapper:
        def __init__(self, inner: object) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

    dispatcher = Dispatcher(face_with(), Wrapper(Toy()))
    assert dispatcher.call("add", (1, 1)) == 2
    assert dispatcher.get("ratio") == 0.25
    with pytest.raises(PolicyError):
        dispatcher.call("_private")


def test_decorated_methods_stay_methods() -> None:
    """What a compiler or a decorator makes of a method is an object with __call__, in the class or in the instance."""

    class Compiled:
        def __init__(self, function: object) -> None:
            self.__wrapped__ = function

        def __call__(self, x: int) -> int:
            return x * 2

    class Model:
        fast = Compiled(None)

        def __init__(self) -> None:
            self.faster = Compiled(None)

    dispatcher = Dispatcher(face_with(reset_model=id), Model())
    assert dispatcher.call("fast", (4,)) == 8
    assert dispatcher.call("faster", (4,)) == 8


class FakeTensor:
    """Behaves as a torch tensor on a device that still needs its gradient."""

    def __init__(self, array: np.ndarray, ready: bool = False, half: bool = False) -> None:
        self.array, self.ready, self.half = array, ready, half

    def detach(self) -> FakeTensor:
        return self

    def cpu(self) -> FakeTensor:
        return FakeTensor(self.array, True, self.half)

    def float(self) -> FakeTensor:
        return FakeTensor(self.array, True)

    def numpy(self) -> np.ndarray:
        if not self.ready:
            raise RuntimeError("on a device")
        if self.half:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array


def test_tensors_become_arrays_wherever_they_are() -> None:
    array = np.arange(3, dtype=np.float32)
    plain = to_plain({"a": [FakeTensor(array)], "b": (FakeTensor(array, half=True), 1)})
    assert isinstance(plain, dict)
    assert plain["a"][0] is array
    assert plain["b"][0] is array
    assert plain["b"][1] == 1


def test_real_tensors() -> None:
    torch = pytest.importorskip("torch", reason="the environment of a simulator has none")
    value = torch.ones(2, 3, requires_grad=True)
    result = to_plain(value)
    assert isinstance(result, np.ndarray)
    assert result.dtype == np.float32
    assert np.array_equal(to_plain(value.detach().to(torch.bfloat16)), np.ones((2, 3), np.float32))


def test_other_libraries_arrays_and_unknown_objects() -> None:
    class Array:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return np.ones(2)

    assert isinstance(to_plain(Array()), np.ndarray)
    thing = object()
    assert to_plain(thing) is thing  # the codec will name it
    array = np.zeros(3)
    assert to_plain(array) is array
