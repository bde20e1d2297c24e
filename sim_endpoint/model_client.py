"""``ModelClient``: what a policy's ``eval()`` sees as its model, a drop-in for RoboPRO's.

Any method by name (``model.get_action()``, several positional arguments), ``model.call(func_name=, obs=)``, and
attributes. Towards a peer of ours attribute reads, ``hasattr`` and ``len`` are honest, dotted paths included. A stock
peer answers an attribute read with an error and hangs up, so there the attributes that wrappers read are mirrored
here: ``observation_window`` and the constants ``pi0_step`` and ``rdt_step`` from the policy's yml.

An attribute that ``eval()`` sets on the proxy stays on this side, as with RoboPRO's, and is what it reads back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from framing.errors import PolicyError
from framing.session import RESET
from sim_endpoint.model_source import ModelSource

OBSERVATION_WINDOW = "observation_window"
UPDATE_METHOD = "update_observation_window"
RESET_METHODS = frozenset({RESET, "reset_obsrvationwindows", "reset_observation_window", "reset_observation_windows"})
MIRRORED_CONSTANTS = ("pi0_step", "rdt_step")

MAX_CALLS_WITHOUT_ACTION = 1000
"""Calls of one ``eval()`` in a row; wrappers make a handful per action, and a loop that never acts has no end."""

_UNREACHABLE = frozenset({"unknown_method"})
_CANNOT_TRAVEL = frozenset({"cannot_send"})


class ModelClient:
    """The model, wherever it is. ``config`` is where the mirrored constants come from."""

    def __init__(self, source: ModelSource, config: Mapping[str, object] | None = None) -> None:
        self._source = source
        self._window_seen = False
        self._calls_without_action = 0
        self._constants = {
            name: (config or {})[name] for name in MIRRORED_CONSTANTS if (config or {}).get(name) is not None
        }

    def call(self, func_name: str, obs: object = None) -> object:
        """RoboPRO's way: ``obs`` is the single argument, ``{"_args": [...]}`` several, None none.

        With a peer of ours a name that is data is read (``model.call("obs_cache")``).
        """
        features = self._source.features
        if obs is None and features is not None and func_name in features.attributes:
            return self._read(func_name)
        if isinstance(obs, Mapping) and isinstance(obs.get("_args"), list | tuple):
            return self._call(func_name, *obs["_args"])
        return self._call(func_name) if obs is None else self._call(func_name, obs)

    def __getattr__(self, name: str) -> object:
        # Private names are never served: pickling, copying and numpy probe for them.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        features = self._source.features
        if features is None:
            if name == OBSERVATION_WINDOW:
                return True if self._window_seen else None
            if name in self._constants:
                return self._constants[name]
            return self._caller(name)
        if name == RESET or name in features.methods:
            return self._caller(name)
        return self._read(name)

    def _caller(self, name: str) -> Callable[..., object]:
        def remote(*args: object, **kwargs: object) -> object:
            return self._call(name, *args, **kwargs)

        remote.__name__ = name
        return remote

    def _call(self, name: str, *args: object, **kwargs: object) -> object:
        self._calls_without_action += 1
        if self._calls_without_action > MAX_CALLS_WITHOUT_ACTION:
            raise PolicyError(
                f"eval() called the model {MAX_CALLS_WITHOUT_ACTION} times without calling take_action",
                kind="no_action",
            )
        result = self._source.call(name, args, kwargs)
        if name == UPDATE_METHOD:
            self._window_seen = True
        elif name in RESET_METHODS:
            self._window_seen = False
        return result

    def begin_episode(self) -> None:
        """The policy was reset: the mirror of a stock peer's window is None again."""
        self._window_seen = False
        self._calls_without_action = 0

    def acted(self) -> None:
        """The robot was moved, so what is asked of the model leads somewhere."""
        self._calls_without_action = 0

    def _read(self, path: str) -> object:
        if path == OBSERVATION_WINDOW and self._window_seen:
            # It holds camera images, and wrappers only ask whether it is None: ask for its length, not for the images.
            try:
                self._source.get(path, length=True)
            except PolicyError as error:
                if error.kind in _UNREACHABLE:
                    raise AttributeError(str(error)) from error
            else:
                return RemoteData(self._source, path)
        return read_remote(self._source, path)


class RemoteData:
    """Data in the model's process that were not, or cannot be, brought here whole: ``len``, dotted paths, indexing."""

    def __init__(self, source: ModelSource, path: str) -> None:
        self._source = source
        self._path = path

    def __len__(self) -> int:
        try:
            size = self._source.get(self._path, length=True)
        except PolicyError as error:
            raise TypeError(f"{self._path} of the model has no len(): {error}") from error
        if not isinstance(size, int):
            raise TypeError(f"{self._path} of the model has no len()")
        return size

    def __bool__(self) -> bool:
        try:
            return len(self) > 0
        except TypeError:
            return True

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return read_remote(self._source, f"{self._path}.{name}")

    def __getitem__(self, key: object) -> object:
        return self._whole()[key]  # type: ignore[index]

    def __iter__(self) -> Iterator[object]:
        return iter(self._whole())  # type: ignore[call-overload,no-any-return]

    def __contains__(self, item: object) -> bool:
        return item in self._whole()  # type: ignore[operator]

    def __eq__(self, other: object) -> bool:
        return bool(self._whole() == other)

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[np.generic]:
        return np.asarray(self._whole(), dtype=dtype)  # type: ignore[call-overload,no-any-return]

    def __repr__(self) -> str:
        return f"<data at {self._path!r} in the model's process>"

    def _whole(self) -> object:
        return self._source.get(self._path)


def read_remote(source: ModelSource, path: str) -> object:
    """The data at ``path``, as :class:`RemoteData` where they cannot travel. Raises AttributeError."""
    try:
        return source.get(path)
    except PolicyError as error:
        if error.kind in _UNREACHABLE:
            raise AttributeError(str(error)) from error
        if error.kind in _CANNOT_TRAVEL:
            return RemoteData(source, path)
        raise
