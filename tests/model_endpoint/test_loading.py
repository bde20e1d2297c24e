from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from model_endpoint.loading import (
    PolicyLoadError,
    PolicyNotFound,
    find_config,
    find_policy,
    load_face,
    load_model,
    shipped_policies,
)
from model_endpoint.own_packages import OWN_PACKAGES, check_own_packages

PLAIN = """
def get_model(usr_args):
    return usr_args["answer"]

def eval(TASK_ENV, model, observation):
    return (TASK_ENV, model, observation)
"""


def test_the_order_is_path_then_policies_then_policy_then_shipped(tmp_path: Path) -> None:
    def make(place: str) -> Path:
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / "deploy_policy.py").write_text(PLAIN)
        return folder

    assert find_policy("dxvla", cwd=tmp_path) == shipped_policies() / "dxvla"
    for place in ("policy/dxvla", "policies/dxvla", "dxvla"):  # each one beats the ones before it
        folder = make(place)
        assert find_policy("dxvla", cwd=tmp_path) == folder.resolve()
    assert find_policy(str(tmp_path / "policy/dxvla"), cwd=Path("/")) == (tmp_path / "policy/dxvla").resolve()
    assert find_policy("policy/dxvla/deploy_policy.py", cwd=tmp_path) == (tmp_path / "policy/dxvla").resolve()


def test_a_folder_of_the_same_name_without_a_face_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "dxvla").mkdir()
    assert find_policy("dxvla", cwd=tmp_path) == shipped_policies() / "dxvla"


def test_not_found_lists_every_place_and_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "policy" / "nope").mkdir(parents=True)
    with pytest.raises(PolicyNotFound) as caught:
        find_policy("nope", cwd=tmp_path)
    text = str(caught.value)
    for place in (tmp_path / "nope", tmp_path / "policies/nope", shipped_policies() / "nope"):
        assert f"{place} (no such folder or file)" in text
    assert f"{tmp_path / 'policy/nope'} (has no deploy_policy.py)" in text
    assert "shipped: dxvla" in text
    assert caught.value.exit_code == 2


def test_a_place_is_listed_once_and_a_file_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(PolicyNotFound) as caught:
        find_policy("nope", cwd=shipped_policies().parent)
    assert str(caught.value).count(f"{shipped_policies() / 'nope'} (no such") == 1
    (tmp_path / "deploy_policy.pi").touch()
    with pytest.raises(PolicyNotFound, match=r"deploy_policy\.pi \(a file, but no deploy_policy\.py\);"):
        find_policy("./deploy_policy.pi", cwd=tmp_path)


@pytest.mark.parametrize("name", ["", "   "])
def test_an_empty_name_is_said_to_be_empty(name: str) -> None:
    with pytest.raises(PolicyNotFound, match="no policy was named"):
        find_policy(name)


def test_face_has_its_functions_and_names_the_missing_ones(write_policy) -> None:
    face = load_face(write_policy("plain", PLAIN))
    assert face.name == "plain"
    assert load_model(face, {"answer": 42}) == 42
    assert face.eval(1, 2, 3) == (1, 2, 3)
    assert face.reset_model is None
    bare = load_face(write_policy("bare", "x = 1\n"))
    with pytest.raises(PolicyLoadError, match=r"bare/deploy_policy\.py has no function get_model\(usr_args\)"):
        _ = bare.get_model
    with pytest.raises(PolicyLoadError, match=r"has no function eval\(TASK_ENV, model, observation\)"):
        _ = bare.eval


def test_get_model_gets_a_copy_of_the_arguments(write_policy) -> None:
    face = load_face(
        write_policy("greedy", "def get_model(usr_args):\n    usr_args['extra'] = 1\n    return usr_args\n")
    )
    given: dict[str, object] = {"seed": 0}
    assert load_model(face, given) == {"seed": 0, "extra": 1}
    assert given == {"seed": 0}


@pytest.mark.parametrize("init", [None, "", "from .deploy_policy import *\n"])
def test_relative_imports_work_with_and_without_a_package_file(write_policy, init: str | None) -> None:
    siblings = {"pi_model.py": "class PI0:\n    name = 'relative'\n"}
    if init is not None:
        siblings["__init__.py"] = init
    folder = write_policy("pi05", "from .pi_model import *\ndef get_model(usr_args):\n    return PI0()\n", **siblings)
    assert load_model(load_face(folder), {}).name == "relative"


def test_siblings_can_be_imported_by_their_bare_name_even_late(write_policy) -> None:
    folder = write_policy(
        "late",
        """
        from sibling_early import VALUE

        def get_model(usr_args):
            from sibling_late.inner import OTHER
            return (VALUE, OTHER)
        """,
        **{"sibling_early.py": "VALUE = 1\n", "sibling_late/__init__.py": "", "sibling_late/inner.py": "OTHER = 2\n"},
    )
    assert load_model(load_face(folder), {}) == (1, 2)


def test_two_policies_with_a_sibling_of_the_same_name_do_not_mix(write_policy) -> None:
    face = "from twin_sibling import WHO\ndef get_model(usr_args):\n    return WHO\n"
    first = load_face(write_policy("first", face, **{"twin_sibling.py": "WHO = 'first'\n"}))
    second = load_face(write_policy("second", face, **{"twin_sibling.py": "WHO = 'second'\n"}))
    assert (load_model(first, {}), load_model(second, {})) == ("first", "second")


def test_stock_ways_of_reaching_siblings(write_policy) -> None:
    """What RoboPRO's wrappers do: sys.path.append of their own folder, imports through `policy` and the own name."""
    folder = write_policy(
        "ACT",
        """
        import sys, os
        import yaml
        sys.path.append(os.path.dirname(os.path.abspath(__file__)))
        from stock_sibling import A
        from policy.ACT.stock_sibling import A as B
        from ACT.stock_sibling import A as C

        def get_model(usr_args):
            return [A, B, C]
        """,
        **{"stock_sibling.py": "A = 'act'\n"},
    )
    assert load_model(load_face(folder), {}) == ["act", "act", "act"]


def test_a_policy_never_hides_an_installed_module(write_policy) -> None:
    folder = write_policy(
        "json",
        "import json\nimport numpy\ndef get_model(usr_args):\n    return (json.dumps([1]), numpy.__name__)\n",
        **{"numpy.py": "raise ImportError('the wrong numpy')\n"},
    )
    assert load_model(load_face(folder), {}) == ("[1]", "numpy")
    import json

    assert json.loads("[1]") == [1]


def test_an_import_that_raises_is_one_sentence_with_file_and_line(write_policy) -> None:
    folder = write_policy("broken", "import numpy\n\nraise ValueError('bad day')\n")
    with pytest.raises(PolicyLoadError) as caught:
        load_face(folder)
    assert "policy 'broken' could not be imported: ValueError: bad day" in str(caught.value)
    assert f"({folder / 'deploy_policy.py'}, line 3)" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


def test_after_it_is_repaired_it_loads(write_policy) -> None:
    folder = write_policy("mended", "from .part import X\n", **{"part.py": "raise RuntimeError('no')\n"})
    with pytest.raises(PolicyLoadError):
        load_face(folder)
    (folder / "part.py").write_text("X = 1234567\n")
    assert load_face(folder).module.X == 1234567


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_library\n", "no_such_library is not installed in this environment"),
        ("\ndef get_model(:\n", r"imported: SyntaxError: [^()]+ \(/.+/faulty/deploy_policy\.py, line 2\)$"),
        ("import sys\nsys.exit('needs a licence')\n", "SystemExit: needs a licence"),
        ("class Panic(BaseException): ...\nraise Panic('no such file')\n", "Panic: no such file"),
    ],
)
def test_import_faults_name_their_cause(write_policy, source: str, message: str) -> None:
    with pytest.raises(PolicyLoadError, match=message):
        load_face(write_policy("faulty", source))


def test_get_model_that_raises_or_returns_none(write_policy) -> None:
    face = load_face(write_policy("weightless", "def get_model(usr_args):\n    open('/no/such/weights')\n"))
    with pytest.raises(
        PolicyLoadError, match=r"get_model\(\) of policy 'weightless' failed: FileNotFoundError.*line 2"
    ):
        load_model(face, {})
    face = load_face(
        write_policy("panicking", "class Panic(BaseException): ...\ndef get_model(a): raise Panic('torn')\n")
    )
    with pytest.raises(PolicyLoadError, match="'panicking' failed: Panic: torn"):
        load_model(face, {})
    face = load_face(write_policy("empty", "def get_model(usr_args):\n    pass\n"))
    with pytest.raises(PolicyLoadError, match="returned None"):
        load_model(face, {})


def test_config_of_a_policy(write_policy) -> None:
    folder = write_policy("configured", PLAIN, **{"deploy_policy.yml": "policy_name: configured\nstep: 5\n"})
    assert find_config(str(folder)) == folder / "deploy_policy.yml"
    bare = write_policy("unconfigured", PLAIN)
    assert find_config(str(bare)) is None


def test_loading_and_dispatching_need_neither_trio_nor_torch() -> None:
    code = (
        "import sys, model_endpoint.loading, model_endpoint.dispatcher;"
        "print(sorted({'trio', 'torch', 'sapien', 'pydantic'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_our_own_packages_are_ours_here() -> None:
    check_own_packages()


@pytest.mark.parametrize("name", [name for name in OWN_PACKAGES if name != "model_endpoint"])
@pytest.mark.parametrize("kind", ["module", "package"])
def test_a_shadowed_package_stops_the_program_and_names_the_file(tmp_path: Path, name: str, kind: str) -> None:
    if kind == "module":
        (tmp_path / f"{name}.py").write_text("")
        shown = tmp_path / f"{name}.py"
    else:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        shown = tmp_path / name
    code = "import sys; from model_endpoint.cli import main; sys.exit(main(['--help']))"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd="/", check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: the package {name!r} is found in {shown}")
    assert len(result.stderr.splitlines()) == 1
