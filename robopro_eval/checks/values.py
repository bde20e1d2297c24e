"""Checks of the values: what is sent comes back as it was, in every format that the server reads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robopro_eval.checks.bench import Bench, Talk
from robopro_eval.checks.core import Check, CheckFailed, Need
from robopro_eval.checks.difference import differences

BIG = 4 << 20
"""Bytes of the big array: far beyond every buffer on the way, and little enough for a server that reads 4 kB at a time
and copies everything it has each time."""


def _dtypes() -> dict[str, object]:
    numbers = np.array([0, 1, 2, 100])
    names = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
    names += ["float16", "float32", "float64", "complex64", "complex128"]
    found: dict[str, object] = {name: numbers.astype(name) for name in names}
    found["text"] = np.array(["", "ä", "longer"])
    found["bytes"] = np.array([b"a", b"\xff\x01"])
    found["datetime64"] = np.array(["2026-01-02", "NaT"], "datetime64[ns]")
    found["extremes"] = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    return found


def _byte_orders() -> dict[str, object]:
    return {f"{order}{code}": np.array([1, 258], f"{order}{code}") for order in "<>" for code in ("i2", "f4", "u8")}


def _shapes() -> dict[str, object]:
    cube = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    return {
        "0-d": np.array(2.5),
        "empty": np.zeros((0, 3), np.float32),
        "one": np.zeros((1, 1, 1), np.uint8),
        "column_order": np.asfortranarray(cube),
        "strided": cube[:, ::-1, ::2],
        "transposed": cube.transpose(2, 0, 1),
    }


def _odd_numbers() -> dict[str, object]:
    nan, infinity = float("nan"), float("inf")
    odd = [nan, infinity, -infinity]
    return {"alone": odd, "float64": np.array(odd), "float16": np.array(odd, np.float16), "deep": {"a": [{"b": nan}]}}


def _containers() -> dict[str, object]:
    return {
        "nested": {"a": {"b": [1, {"c": np.arange(3)}, []]}, "empty": {}},
        "nothing": [None, {"x": None}],
        "text": ["", "ü 机器人 \U0001f916", '\u2028 \\ " \x00 \x7f'],
        "arrays": [np.zeros(2, np.uint8), [np.ones(2, np.uint8)]],
        "strings that look like more": ["NaN", "true", "null", "1"],
    }


def _scalars() -> dict[str, object]:
    return {
        "booleans": [True, False],
        "whole": [0, -1, 2**53 + 1, -(2**63), 2**80],
        "floats": [0.1, 1e308, 5e-324, 1.0, 1e16],
    }


def _comes_back(make: Callable[[], dict[str, object]]) -> Callable[[Bench], str]:
    """A check that echoes what `make` gives."""

    def check(bench: Bench) -> str:
        sent = make()
        formats = []
        for name, talk in bench.talks():
            _echo(bench, talk, sent, name)
            formats.append(name)
        return f"{len(sent)} kinds came back as they were ({', '.join(formats)})"

    return check


def _echo(bench: Bench, talk: Talk, sent: object, where: str) -> None:
    assert bench.known.echo is not None
    got = talk.call(bench.known.echo, sent)
    for difference in differences(sent, got, where):
        raise CheckFailed(str(difference))


def big_array(bench: Bench) -> str:
    sent = np.random.default_rng(0).integers(0, 256, BIG, dtype=np.uint8)
    for name, talk in bench.talks():
        _echo(bench, talk, sent, name)
    return f"{BIG >> 20} MiB came back as they were"


def big_reply(bench: Bench) -> str:
    with bench.talk() as talk:
        got = talk.call("blob", BIG)
    for difference in differences(np.resize(np.arange(251, dtype=np.uint8), BIG), got, "blob"):
        raise CheckFailed(str(difference))
    return f"{BIG >> 20} MiB came whole"


def positional_arguments(bench: Bench) -> str:
    sent: list[list[object]] = [[1, np.arange(3)], [None], [{"_args": [1, 2]}], [[1, 2]], ["a", {"b": None}]]
    with bench.talk() as talk:
        for args in sent:
            got = talk.call("echo_args", *args)
            for difference in differences({"args": args, "kwargs": {}}, got, "echo_args"):
                raise CheckFailed(str(difference))
    return f"{len(sent)} combinations arrive as they were given"


def keyword_arguments(bench: Bench) -> str:
    with bench.talk() as talk:
        got = talk.call("echo_args", 1, b=2, c=np.arange(2))
    for difference in differences({"args": [1], "kwargs": {"b": 2, "c": np.arange(2)}}, got, "echo_args"):
        raise CheckFailed(str(difference))
    return "arrive by name"


def marked_dict(bench: Bench) -> str:
    sent = {"__numpy_array__": True, "data": "AAAA", "dtype": "uint8", "shape": [3]}
    for name, talk in bench.talks():
        _echo(bench, talk, sent, name)
    return "stays a dict"


def raw_bytes(bench: Bench) -> str:
    assert bench.known.echo is not None
    with bench.talk() as talk:
        got = talk.call(bench.known.echo, b"\x00\xff" * 3000)
    for difference in differences(b"\x00\xff" * 3000, got, "binary"):
        raise CheckFailed(str(difference))
    return "6000 bytes came back as they were"


_ECHO = frozenset({Need.ECHO})
CHECKS = (
    Check(
        "values.dtypes",
        "arrays of every dtype that travels keep dtype and contents",
        "send str(dtype) and the array's own bytes; rebuild with exactly that dtype",
        _comes_back(_dtypes),
        _ECHO,
    ),
    Check(
        "values.byte_order",
        "arrays keep the byte order of their dtype",
        "take dtype from str(dtype), which names the byte order (>f4), not from dtype.name",
        _comes_back(_byte_orders),
        _ECHO,
    ),
    Check(
        "values.shapes",
        "arrays keep their shape: 0-d, empty, in column order, transposed",
        "send the bytes in C order together with the shape, and reshape to it, also to [] and to [0, 3]",
        _comes_back(_shapes),
        _ECHO,
    ),
    Check(
        "values.odd_numbers",
        "NaN and infinities stay themselves, inside and outside arrays",
        "write and read NaN and Infinity as bare tokens, as Python's json does; other libraries make them null",
        _comes_back(_odd_numbers),
        _ECHO,
    ),
    Check(
        "values.containers",
        "nested lists and dicts, None and any text stay themselves",
        "encode with UTF-8 JSON and walk through dicts and lists at any depth",
        _comes_back(_containers),
        _ECHO,
    ),
    Check(
        "values.scalars",
        "numbers and booleans keep kind and value, whole numbers of any size included",
        "keep integers integers (not floats), and write floats with all their digits (repr)",
        _comes_back(_scalars),
        _ECHO,
    ),
    Check(
        "values.big_array",
        f"an array of {BIG >> 20} MiB comes back whole",
        "read until all bytes that the header announced are there",
        big_array,
        _ECHO,
    ),
    Check(
        "values.big_reply",
        f"a reply of {BIG >> 20} MiB to a small request comes whole",
        "send until all bytes are gone (sendall)",
        big_reply,
        frozenset({Need.ECHO_POLICY}),
    ),
    Check(
        "values.arguments",
        "several arguments, a single None and a dict with the key _args arrive as they were given",
        'call method(*obs["_args"]) for an obs with that key, method() for null, method(obs) otherwise',
        positional_arguments,
        frozenset({Need.ECHO_POLICY}),
    ),
    Check(
        "values.keywords",
        "keyword arguments arrive by name",
        "call method(*args, **kwargs) for requests that carry args",
        keyword_arguments,
        frozenset({Need.ECHO_POLICY, Need.UPGRADED}),
    ),
    Check(
        "values.marked_dict",
        "a dict that looks like an array descriptor stays a dict",
        'read and write the escape {"__numpy_array__": "pairs", "pairs": [[key, value], ...]}',
        marked_dict,
        _ECHO | {Need.UPGRADED},
    ),
    Check(
        "values.bytes",
        "bytes travel in the binary body",
        'read and write the descriptor {"__numpy_array__": "bytes", "size": n}',
        raw_bytes,
        _ECHO | {Need.BINARY},
    ),
)
