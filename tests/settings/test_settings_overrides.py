"""The typed override parser: YAML 1.2 scalars, nothing evaluated."""

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from robopro_eval.console.errors import UsageError
from robopro_eval.settings.overrides import parse_value, split_pairs


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-1", -1),
        ("0.5", 0.5),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("5.", 5.0),
        ("true", True),
        ("False", False),
        ("null", None),
        ("None", None),
        ("yes", "yes"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("'42'", "42"),
        ("[1, 2.5, a]", [1, 2.5, "a"]),
        ('["x", true]', ["x", True]),
        ("[]", []),
        ("put_cup_in_box", "put_cup_in_box"),
        ("__import__('os').system('true')", "__import__('os').system('true')"),
        ("", ""),
        ("-.inf", -math.inf),
    ],
)
def test_values(text: str, value: object) -> None:
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


@given(st.integers() | st.booleans() | st.floats(allow_nan=False) | st.none())
def test_agrees_with_yaml_on_what_python_prints(value: object) -> None:
    # PyYAML reads 1e-05 as text (YAML 1.1 wants a dot), so it is asked only about what it can read.
    text = repr(value) if value is not None else "null"
    loaded = yaml.safe_load(text)
    if isinstance(loaded, str):
        loaded = float(loaded)
    assert parse_value(text) == loaded


def test_pairs() -> None:
    assert split_pairs(["--seed", "-1", "--task-name=a=b"]) == [("seed", "-1"), ("task_name", "a=b")]


@pytest.mark.parametrize(
    ("tokens", "word"), [(["--seed"], "--seed"), (["--a", "--b", "1"], "--a"), (["task", "x"], "'task'")]
)
def test_broken_pairs_name_the_token(tokens: list[str], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        split_pairs(tokens)
