"""The one typed parser of override values, used by both programs. It never evaluates anything."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from robopro_eval.console.errors import UsageError

Value = bool | int | float | str | list[object] | None

_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Value] = {"true": True, "false": False, "null": None, "none": None, "~": None}
_SPECIAL_FLOATS = {
    ".inf": float("inf"),
    "+.inf": float("inf"),
    "-.inf": float("-inf"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    ".nan": float("nan"),
    "nan": float("nan"),
}


def parse_value(text: str) -> Value:
    """Read one value the way YAML 1.2 reads a scalar: ``true``, ``-1``, ``0.5``, ``1e-3``, ``null``, ``[1, 2]``.

    Anything else is the text itself: ``yes``, ``on``, ``1:30`` and ``0x10`` stay strings, quotes force a string
    (``'42'``). A list holds the same scalars or is JSON. Nothing is evaluated.
    """
    stripped = text.strip()
    lowered = stripped.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    if _INT.fullmatch(stripped):
        return int(stripped)
    if _FLOAT.fullmatch(stripped):
        return float(stripped)
    if lowered in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[lowered]
    if len(stripped) >= 2 and stripped[0] == stripped[-1] and stripped[0] in "'\"":
        return stripped[1:-1]
    if stripped.startswith("[") and stripped.endswith("]"):
        return _parse_list(stripped)
    return text


def _parse_list(text: str) -> Value:
    try:
        loaded = json.loads(text)
    except ValueError:
        inner = text[1:-1].strip()
        if "[" in inner or "{" in inner:
            return text  # nested and not JSON: leave it as the text it is rather than guess
        return [parse_value(part.strip()) for part in inner.split(",")] if inner else []
    return list(loaded) if isinstance(loaded, list) else text


def split_pairs(tokens: Sequence[str]) -> list[tuple[str, str]]:
    """Split ``--key value --key=value ...`` into pairs; ``-`` and ``_`` in a key are the same.

    Raises UsageError naming the token that is not a key, or the key that has no value.
    """
    pairs: list[tuple[str, str]] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if not token.startswith("--") or len(token) < 3:
            raise UsageError(f"--overrides takes pairs of --key value, but {token!r} is not a --key")
        name, equals, value = token[2:].partition("=")
        position += 1
        if not equals:
            if position >= len(tokens) or tokens[position].startswith("--"):
                raise UsageError(f"--overrides: {token} has no value; write {token} VALUE (true or false for a switch)")
            value = tokens[position]
            position += 1
        pairs.append((name.replace("-", "_"), value))
    return pairs
