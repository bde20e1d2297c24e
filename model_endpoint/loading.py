"""Finding a policy's folder and loading its face, ``deploy_policy.py``.

A face is what RoboTwin and RoboPRO users write: ``get_model(usr_args) -> model``,
``eval(TASK_ENV, model, observation)`` and, optionally, ``reset_model(model)``. Both programs load it: the model program
for ``get_model`` and ``reset_model``, the simulator program for ``eval``.

The file is loaded under a private package name, so that ``from .my_model import X`` works in any folder (with or
without ``__init__.py``) and a policy called ``json`` hides nothing. Modules beside it can also be imported by their
bare name (``from my_model import X``), after everything that is installed.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import importlib.util
import os
import re
import sys
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import cast

from robopro_eval.console.errors import UsageError, UserError

FACE_FILE = "deploy_policy.py"
CONFIG_FILE = "deploy_policy.yml"
LOCAL_FOLDERS = ("policies", "policy")  # ours, and RoboPRO's name for it
STOCK_PARENT = "policy"
PRIVATE_PREFIX = "_robopro_eval_policy_"

UsrArgs = Mapping[str, object]


class PolicyNotFound(UsageError):
    """No folder with a ``deploy_policy.py`` under that name; the message lists the places tried."""


class PolicyLoadError(UserError):
    """The policy is there but does not load: its code raised, or a function of the face is missing."""


@dataclass(frozen=True)
class PolicyFace:
    """A loaded ``deploy_policy.py``. Asking for a function it does not have raises PolicyLoadError naming the file."""

    name: str
    folder: Path
    module: types.ModuleType

    @property
    def get_model(self) -> Callable[[dict[str, object]], object]:
        return cast("Callable[[dict[str, object]], object]", self._function("get_model", "usr_args"))

    @property
    def eval(self) -> Callable[[object, object, object], object]:
        """``eval(TASK_ENV, model, observation)``: one decision; acts through ``TASK_ENV.take_action``."""
        return cast(
            "Callable[[object, object, object], object]", self._function("eval", "TASK_ENV, model, observation")
        )

    @property
    def reset_model(self) -> Callable[[object], object] | None:
        """The module's ``reset_model(model)``, None if it has none (the model may have a method of that name)."""
        function = getattr(self.module, "reset_model", None)
        return cast("Callable[[object], object]", function) if callable(function) else None

    def _function(self, name: str, parameters: str) -> object:
        function = vars(self.module).get(name)
        if not callable(function):
            raise PolicyLoadError(f"{self.folder / FACE_FILE} has no function {name}({parameters}); a policy needs it")
        return function


def find_policy(name_or_path: str | os.PathLike[str], *, cwd: Path | None = None) -> Path:
    """Folder of a policy: the name as a path, then ``./policies/<name>``, ``./policy/<name>``, then the shipped ones.

    A path may also name the ``deploy_policy.py`` itself. Returns an absolute path. Raises PolicyNotFound.
    """
    text = os.fspath(name_or_path).strip()
    if not text:
        raise PolicyNotFound("no policy was named: give --policy_name a name or the path of a policy's folder")
    here = Path.cwd() if cwd is None else cwd
    given = Path(text).expanduser()
    candidates = [here / given]
    if not given.is_absolute() and text.split("/")[0] not in (".", ".."):  # which Path forgets
        candidates += [here / folder / given for folder in LOCAL_FOLDERS]
        candidates.append(shipped_policies() / given)
    tried = {}  # by place: from this repository's root, ./policies are the shipped ones
    for candidate in candidates:
        if candidate.is_file() and candidate.name == FACE_FILE:
            return candidate.parent.resolve()
        if (candidate / FACE_FILE).is_file():
            return candidate.resolve()
        tried[candidate] = f"{candidate} ({_why_no_policy(candidate)})"
    known = sorted(path.parent.name for path in shipped_policies().glob(f"*/{FACE_FILE}"))
    raise PolicyNotFound(
        f"no policy {text!r}; tried {', '.join(tried.values())}; "
        f"shipped: {', '.join(known) or 'none'}; --policy_name also takes the path of a folder with {FACE_FILE}"
    )


def _why_no_policy(place: Path) -> str:
    if place.is_dir():
        return f"has no {FACE_FILE}"
    return f"a file, but no {FACE_FILE}" if place.is_file() else "no such folder or file"


def shipped_policies() -> Path:
    """The folder of the policies that came with this package."""
    return Path(__file__).resolve().parent.parent / "policies"


def find_config(name_or_path: str) -> Path | None:
    """The policy's ``deploy_policy.yml``, None if it has none. Raises PolicyNotFound."""
    path = find_policy(name_or_path) / CONFIG_FILE
    return path if path.is_file() else None


def load_face(folder: Path) -> PolicyFace:
    """Import the ``deploy_policy.py`` of a folder. Loading the same folder again gives the same module.

    Raises PolicyLoadError with the cause chained when the policy's own code raises.
    """
    folder = folder.resolve()
    if not (folder / FACE_FILE).is_file():
        raise PolicyNotFound(f"{folder} has no {FACE_FILE}")
    package = private_name(folder)
    _let_siblings_be_imported(folder)
    importlib.invalidate_caches()  # the folder may have been written a moment ago
    try:
        if package not in sys.modules:
            _import_package(package, folder)
        module = importlib.import_module(f"{package}.{FACE_FILE.removesuffix('.py')}")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also what is no Exception, as a panic of a library written in Rust
        for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
            del sys.modules[name]
        raise PolicyLoadError(
            f"policy {folder.name!r} could not be imported: {_describe_import(error)}{_line_in(folder, error)}"
            f"{_hint(error)}"
        ) from error
    return PolicyFace(folder.name, folder, module)


def load_model(face: PolicyFace, usr_args: UsrArgs) -> object:
    """Run ``get_model`` on a copy of ``usr_args``. Raises PolicyLoadError with the cause chained."""
    get_model = face.get_model
    try:
        model = get_model(dict(usr_args))
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PolicyLoadError(
            f"get_model() of policy {face.name!r} failed: {describe(error)}{_line_in(face.folder, error)}{_hint(error)}"
        ) from error
    if model is None:
        raise PolicyLoadError(f"get_model() in {face.folder / FACE_FILE} returned None; it must return the model")
    return model


def private_name(folder: Path) -> str:
    """The package name a policy's folder is loaded under: readable in a traceback, different for every folder."""
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    return f"{PRIVATE_PREFIX}{re.sub(r'[^0-9a-zA-Z]', '_', folder.name)}_{digest}"


def describe(error: BaseException) -> str:
    """``TypeName: message``, or the type alone where there is no message."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _import_package(package: str, folder: Path) -> None:
    init = folder / "__init__.py"
    if init.is_file():
        spec = importlib.util.spec_from_file_location(package, init, submodule_search_locations=[str(folder)])
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot read {init}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[package] = module
        spec.loader.exec_module(module)
        return
    spec = ModuleSpec(package, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules[package] = importlib.util.module_from_spec(spec)


class _SiblingFinder(importlib.abc.MetaPathFinder):
    """Finds modules by bare name in a policy's folder, last of all finders.

    RoboPRO starts its programs with ``.`` and ``./policy`` on the path, so a folder inside one named ``policy`` gets
    these two as well (``from policy.ACT.x import y``, ``import ACT``).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = [str(folder)]
        if folder.parent.name == STOCK_PARENT:
            self.path += [str(folder.parent), str(folder.parent.parent)]
        self.provided: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or "." in fullname:  # inside a package the package's own path decides
            return None
        spec = PathFinder.find_spec(fullname, self.path, target)
        if spec is not None:
            self.provided.add(fullname)
        return spec


def _let_siblings_be_imported(folder: Path) -> None:
    """Put the folder behind everything installed; a module of another policy under the same bare name makes way."""
    mine: _SiblingFinder | None = None
    for finder in [finder for finder in sys.meta_path if isinstance(finder, _SiblingFinder)]:
        if finder.folder == folder:
            mine = finder
            continue
        for name in [name for name in sys.modules if name.split(".")[0] in finder.provided]:
            del sys.modules[name]
        finder.provided.clear()
        sys.meta_path.remove(finder)
        sys.meta_path.append(finder)
    if mine is None:
        mine = _SiblingFinder(folder)
    else:
        sys.meta_path.remove(mine)
    first_other = next(
        (index for index, finder in enumerate(sys.meta_path) if isinstance(finder, _SiblingFinder)), len(sys.meta_path)
    )
    sys.meta_path.insert(first_other, mine)


def _describe_import(error: BaseException) -> str:
    """As `describe`, but a SyntaxError without its place, which it gives without the folder."""
    return f"SyntaxError: {error.msg}" if isinstance(error, SyntaxError) and error.filename else describe(error)


def _line_in(folder: Path, error: BaseException) -> str:
    """`` (file, line N)`` of the innermost line of the policy's own code, empty where there is none."""
    if isinstance(error, SyntaxError) and error.filename:  # the file that was read, by no line of its own
        return f" ({error.filename}, line {error.lineno})"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(folder):
            return f" ({frame.filename}, line {frame.lineno})"
    return ""


def _hint(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.split(".")[0]
        return f"; {package} is not installed in this environment ({sys.executable})"
    return ""
