"""The stock body in two functions: `numpy_to_json` and `json_to_numpy`, byte-compatible with RoboPRO's helpers.

What travels, and what becomes of it:

======================================  ===========================================================
arrays (any order, 0-d, empty, bool,    the same dtype, byte order and shape; always writable, C order
float16, complex, text, times)
NaN, Infinity                           themselves, inside and outside arrays
tuples                                  lists
numpy scalars, np.str_                  Python numbers, strings
int, float, bool, None as dict keys     their JSON text: `"1"`, `"0.5"`, `"true"`, `"null"`
ndarray subclasses                      plain arrays
object, structured, void, extended      refused at the sender, naming the key path
precision; masked arrays; sets; bytes
a dict holding `__numpy_array__`        itself, between two of ours (`escape=True`); else refused
======================================  ===========================================================
"""

from __future__ import annotations

from framing.decoding import Wire, decode
from framing.encoding import encode_parts

__all__ = ["Wire", "json_to_numpy", "numpy_to_json"]


def numpy_to_json(value: object, *, root: str = "value", escape: bool = False) -> bytes:
    """The UTF-8 JSON body of `value`. Raises EncodeError, whose message begins with the key path under `root`.

    `escape` writes dicts that hold the key `__numpy_array__` in a form that only our own decoder undoes.
    """
    return b"".join(encode_parts(value, root=root, escape=escape))


def json_to_numpy(body: bytes | bytearray | memoryview) -> Wire:
    """The value of a JSON body, arrays writable and independent of `body`. Raises ProtocolError and nothing else."""
    return decode(body)
