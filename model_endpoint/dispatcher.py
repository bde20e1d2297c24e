"""From a command to a call of the policy, and from a path to a value of it. No socket, no thread, no clock.

A ``Dispatcher`` is one session with a policy: of its own where the model offers ``new_session()``, the model itself
where it does not. What may be reached is decided here and nowhere else: public methods by name, public data by path. A
leading underscore anywhere is refused, data are never called, and a path never crosses into a module, a class or a
function.
"""

from __future__ import annotations

import collections
import functools
import inspect
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np

from framing.errors import PolicyError
from framing.session import RESET, Features, Kind
from model_endpoint.loading import FACE_FILE, PolicyFace, PolicyLoadError, describe

EPISODE_HOOK = "begin_episode"
NEW_SESSION = "new_session"
ACT = "get_action"
PREPARE, INFER, FINISH = "prepare", "infer", "finish"
"""The three phases of ``ACT``: the outer two are the session's, the middle one is the model's, for several at once."""

OTHER_RESETS = (
    "reset_obs",
    "reset_obsrvationwindows",
    "reset_observation_windows",
    "reset_observation_window",
    "reset",
)
"""What RoboTwin's wrappers call it where they have no ``reset_model`` (one of them is really spelled like that)."""

_OPAQUE = (
    types.ModuleType,
    type,
    types.FrameType,
    types.CodeType,
    types.TracebackType,
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
)


class Dispatcher:
    """One session with a policy: calls the public face of ``model.new_session()``, or of ``model`` itself where it
    offers none. The policy's ``face`` may lend it a ``reset_model``.

    Not thread safe and not meant to be: it lives on the policy's thread. Whatever the policy raises comes out as
    :class:`framing.errors.PolicyError` with ``kind`` and ``remote_traceback``, also what is no ``Exception``: a panic
    of a library in Rust, asyncio's ``CancelledError``. Only a ``KeyboardInterrupt`` stays what it is.

    Raises PolicyLoadError when there is no way to reset the policy: without one, an episode would begin with what the
    last one left behind. PolicyError when ``new_session()`` raises.
    """

    def __init__(self, face: PolicyFace, model: object) -> None:
        self._name = face.name
        self.has_own_session = is_method(model, NEW_SESSION)
        self._model = self._new_session(model) if self.has_own_session else model
        self._methods: set[str] = set()  # names that were looked at and are methods, which takes a while to find out
        self._reset = self._find_reset(face)
        phases = self.has_own_session and self._is_method(PREPARE) and self._is_method(FINISH)
        self._infer = getattr(model, INFER) if phases and is_method(model, INFER) else None

    @property
    def acts_in_phases(self) -> bool:
        """Whether an action is ``prepare``, ``infer`` and ``finish``, so that sessions can share the second."""
        return self._infer is not None

    def features(self) -> Features:
        """Public methods and attributes as they are now; data that appear later can be read all the same."""
        methods, attributes = {RESET} | ({ACT} if self.acts_in_phases else set()), set()
        for name in dir(self._model):
            if name.startswith("_"):
                continue
            if self._is_method(name):
                methods.add(name)
            elif not isinstance(inspect.getattr_static(self._model, name, None), type):
                attributes.add(name)
        return Features(policy_name=self._name, methods=frozenset(methods), attributes=frozenset(attributes))

    def call(self, cmd: str, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None) -> object:
        """Call the public method ``cmd``; arrays of other libraries in the result become numpy arrays.

        Raises PolicyError with kind ``unknown_method``, ``bad_arguments`` or ``policy_error``.
        """
        if cmd == ACT and self.acts_in_phases:
            (output,) = self.infer([self.prepare(args, kwargs)])
            return self.finish(output)
        return self._plain(cmd, self._invoke(cmd, args, kwargs))

    def prepare(self, args: Sequence[object], kwargs: Mapping[str, object] | None = None) -> object:
        """The first phase of an action: what ``infer`` takes of this session. Raises PolicyError as ``call``."""
        return self._invoke(PREPARE, args, kwargs)

    def infer(self, inputs: list[object]) -> list[object]:
        """The second phase, for this session and others: one output for each of ``inputs``. Raises PolicyError."""
        doing = f"{self._name}.{INFER}()"
        if self._infer is None:
            raise TypeError(f"{doing} is no phase of this policy")
        try:
            outputs = list(self._infer(inputs))
        except BaseException as error:
            self._fail(doing, error)
        if len(outputs) != len(inputs):
            raise PolicyError(
                f"{doing} has to return one output for each input, in their order: it returned {len(outputs)} for "
                f"{len(inputs)}",
                kind=Kind.POLICY_ERROR,
            )
        return outputs

    def finish(self, output: object) -> object:
        """The third phase: what this session sends of its output. Raises PolicyError as ``call``."""
        return self._plain(FINISH, self._invoke(FINISH, (output,), None))

    def get(self, path: str, length: bool = False) -> object:
        """Read the data at a dotted path (``obs_cache``, ``env_runner.obs``, ``stats.3.mean``), or its ``len``.

        Each step is an attribute, a key of a dict, or an index of a list. Raises PolicyError with kind
        ``unknown_method`` for what cannot be reached and ``policy_error`` for what a property raised.
        """
        value: object = self._model
        walked: list[str] = []
        for step in path.split("."):
            walked.append(step)
            where = ".".join(walked)
            if not step or step.startswith("_"):
                raise PolicyError(
                    f"{where!r} of policy {self._name!r} is private and not served", kind=Kind.UNKNOWN_METHOD
                )
            value = self._step(value, step, where)
            if _is_function(value):
                raise PolicyError(
                    f"{where!r} of policy {self._name!r} is a method: call it; paths only read data",
                    kind=Kind.UNKNOWN_METHOD,
                )
            if isinstance(value, _OPAQUE):
                raise PolicyError(
                    f"{where!r} of policy {self._name!r} is a {type(value).__name__}; only data are served",
                    kind=Kind.UNKNOWN_METHOD,
                )
        try:
            return len(value) if length else to_plain(value, snapshot=self.has_own_session)  # type: ignore[arg-type]
        except BaseException as error:
            self._fail(f"reading {path!r} of policy {self._name!r}", error)

    def begin_episode(self, info: Mapping[str, object]) -> None:
        """Tell the policy which episode begins (``id``, ``task``, ``seed``), if it wants to know."""
        if self._is_method(EPISODE_HOOK):
            self.call(EPISODE_HOOK, (dict(info),))

    def _new_session(self, model: object) -> object:
        try:
            session: object = model.new_session()  # type: ignore[attr-defined]
        except BaseException as error:
            # No verdict on the policy: the episode has not begun, and whoever asked for it begins it again.
            self._fail(f"{self._name}.{NEW_SESSION}()", error, Kind.STALE_EPISODE)
        return session

    def _invoke(self, cmd: str, args: Sequence[object], kwargs: Mapping[str, object] | None) -> object:
        method = self._reset if cmd == RESET else self._method(cmd)
        try:
            return method(*args, **(kwargs or {}))
        except BaseException as error:
            if isinstance(error, TypeError):
                self._check_arguments(cmd, method, args, kwargs or {})
            self._fail(f"{self._name}.{cmd}()", error)

    def _plain(self, cmd: str, value: object) -> object:
        """What leaves the policy's thread. Where sessions take turns on it, the next one's call may write into a buffer
        of the policy that this result still shows, while it is being sent: then arrays are copied here."""
        try:
            return to_plain(value, snapshot=self.has_own_session)
        except BaseException as error:
            self._fail(f"{self._name}.{cmd}()", error)

    def _find_reset(self, face: PolicyFace) -> Callable[..., object]:
        if self._is_method(RESET):
            return self._method(RESET)
        function = face.reset_model
        if function is not None:
            return functools.partial(function, self._model)
        for name in OTHER_RESETS:
            if self._is_method(name):
                return self._method(name)
        raise PolicyLoadError(
            f"policy {face.name!r} cannot be reset between episodes: add `def reset_model(model)` to "
            f"{face.folder / FACE_FILE} (with `pass` if it keeps nothing), or a method of that name to its model"
        )

    def _is_method(self, name: str) -> bool:
        return is_method(self._model, name)

    def _method(self, cmd: str) -> Callable[..., object]:
        if cmd in self._methods:
            known: object = getattr(self._model, cmd, None)
            if isinstance(known, types.MethodType | types.FunctionType):  # it may have been replaced meanwhile
                return known
        if not cmd.startswith("_") and self._is_method(cmd):
            method: object = getattr(self._model, cmd)
            if callable(method):
                self._methods.add(cmd)
                return method
        names = ", ".join(sorted(self.features().methods))
        raise PolicyError(
            f"policy {self._name!r} has no public method {cmd!r}; it has: {names}", kind=Kind.UNKNOWN_METHOD
        )

    def _check_arguments(
        self, cmd: str, method: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> None:
        """After a TypeError: raise PolicyError if it was the arguments, and no defect of the policy."""
        try:
            signature = inspect.signature(method)
        except (TypeError, ValueError):  # written in C, without a signature: the call itself will tell
            return
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise PolicyError(
                f"{self._name}.{cmd}{signature} does not take what was sent: {error}", kind=Kind.BAD_ARGUMENTS
            ) from error

    def _step(self, value: object, step: str, where: str) -> object:
        if isinstance(value, Mapping):
            if step in value:
                found: object = value[step]
                return found
            names = ", ".join(sorted(str(key) for key in value)[:20])
            raise PolicyError(
                f"{where!r}: no such key in policy {self._name!r}; there is: {names}", kind=Kind.UNKNOWN_METHOD
            )
        if isinstance(value, list | tuple | collections.deque) and step.isdecimal():
            if int(step) < len(value):
                item: object = value[int(step)]
                return item
            raise PolicyError(f"{where!r}: only {len(value)} items in policy {self._name!r}", kind=Kind.UNKNOWN_METHOD)
        try:
            found = getattr(value, step)
        except AttributeError as error:
            if hasattr(type(value), step):  # a property that failed on its own
                self._fail(f"reading {where!r} of policy {self._name!r}", error)
            public = ", ".join(sorted(self.features().attributes)) if value is self._model else ""
            there_is = f"; there is: {public}" if public else ""
            raise PolicyError(
                f"policy {self._name!r} has no attribute {where!r}{there_is}", kind=Kind.UNKNOWN_METHOD
            ) from None
        except BaseException as error:
            self._fail(f"reading {where!r} of policy {self._name!r}", error)
        return found

    def _fail(self, doing: str, error: BaseException, kind: Kind = Kind.POLICY_ERROR) -> NoReturn:
        if isinstance(error, PolicyError | KeyboardInterrupt):
            raise error
        inner = error.__traceback__.tb_next if error.__traceback__ is not None else None  # without our own line
        text = "".join(traceback.format_exception(type(error), error, inner or error.__traceback__))
        raise PolicyError(f"{doing} failed: {describe(error)}", remote_traceback=text, kind=kind) from error


def is_method(owner: object, name: str) -> bool:
    """Whether ``name`` is a method of ``owner``, not data that merely can be called. Properties are not run for it."""
    missing = object()
    static = inspect.getattr_static(owner, name, missing)
    if static is missing:  # a wrapper whose __getattr__ lends it the methods of what it wraps
        return _is_function(getattr(owner, name, None))
    if isinstance(static, staticmethod | classmethod | functools.partialmethod):
        return True
    if name in getattr(owner, "__dict__", {}) or isinstance(static, type):
        return _is_function(static)
    return callable(static)  # in a class: a function, or what a compiler's decorator made of one


def to_plain(value: object, *, snapshot: bool = False) -> object:
    """Containers of numpy and plain Python instead of other libraries' arrays (torch, jax), found by how they behave.

    Lists, tuples, deques and dicts are rebuilt. With ``snapshot`` arrays are copied, so that nothing in the result
    changes when its owner goes on. What is neither stays as it is; the codec names it if it cannot travel.
    """
    if value is None or isinstance(value, bool | int | float | str | bytes | np.generic):
        return value
    if isinstance(value, np.ndarray):
        return value.copy() if snapshot else value
    if isinstance(value, Mapping):
        return {key: to_plain(item, snapshot=snapshot) for key, item in value.items()}
    if isinstance(value, list | tuple | collections.deque):
        return [to_plain(item, snapshot=snapshot) for item in value]
    if isinstance(value, type):
        return value
    if all(hasattr(value, name) for name in ("detach", "cpu", "numpy")):
        return to_plain(_tensor_to_numpy(value), snapshot=snapshot)
    if hasattr(value, "__array__"):
        return np.array(value) if snapshot else np.asarray(value)
    return value


def _tensor_to_numpy(tensor: object) -> object:
    on_cpu = tensor.detach().cpu()  # type: ignore[attr-defined]
    try:
        array: object = on_cpu.numpy()
    except TypeError:  # bfloat16 has no numpy twin; float32 holds every value of it
        array = on_cpu.float().numpy()
    return array


def _is_function(value: object) -> bool:
    """A function, a bound method, a partial, or what a decorator (compile, jit, wraps) made of one. Not a class, not a
    network that merely can be called."""
    if isinstance(value, type):
        return False
    return (
        inspect.isroutine(value)
        or isinstance(value, functools.partial)
        or (callable(value) and hasattr(value, "__wrapped__"))
    )
