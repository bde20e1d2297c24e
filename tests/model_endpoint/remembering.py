"""A policy whose every action depends on everything its episode has seen, and simulators that notice a mix-up."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

SOURCE = '''
import hashlib

import numpy as np


class Session:
    """One episode: a hash of everything it was told. Its actions come out of a buffer that all sessions share."""

    def __init__(self, model):
        self._model = model
        self.reset_model()

    def reset_model(self):
        self._seen = hashlib.sha256()

    def set_language(self, text):
        self._seen.update(text.encode())

    def update_obs(self, picture):
        self._seen.update(picture.tobytes())

    def get_action(self):
        return self.finish(self._model.infer([self.prepare()])[0])

    def prepare(self):
        return self._seen.digest()

    def finish(self, output):
        self._seen.update(b"acted")
        self._model.buffer[:] = output
        return self._model.buffer


class Model:
    """With `shared`, every session is the same one: what must not happen, and what the tests must notice."""

    def __init__(self, shared):
        self.buffer = np.zeros(32, np.uint8)
        self.only = Session(self) if shared else None
        self.batches = []

    def new_session(self):
        return self.only or Session(self)

    def infer(self, digests):
        self.batches.append(len(digests))
        return [np.frombuffer(digest, np.uint8) for digest in digests]


def get_model(usr_args):
    return Model(bool(usr_args.get("shared")))
'''

Step = tuple[str, tuple[object, ...]]


def script(number: int) -> list[Step]:
    """What simulator `number` asks: two episodes of different lengths, the second of which must not know the first."""
    rng = np.random.default_rng([30000, number])
    steps: list[Step] = []
    for length in (3, 2):
        steps += [("reset_model", ()), ("set_language", (f"task {number}",))]
        for _ in range(length):
            steps += [("update_obs", (rng.integers(0, 256, (4, 5, 3), dtype=np.uint8),)), ("get_action", ())]
    return steps


def truth(number: int) -> list[bytes]:
    """The actions of simulator `number`, without any of our code."""
    actions: list[bytes] = []
    seen = hashlib.sha256()
    for cmd, args in script(number):
        if cmd == "reset_model":
            seen = hashlib.sha256()
        elif cmd == "get_action":
            actions.append(seen.digest())
            seen.update(b"acted")
        else:
            (told,) = args
            seen.update(told.encode() if isinstance(told, str) else np.asarray(told).tobytes())
    return actions


def shuffled(count: int, seed: int) -> Sequence[int]:
    """Whose turn it is: every simulator as often as it has steps, in an order made of `seed`."""
    turns = np.repeat(np.arange(count), len(script(0)))
    return [int(turn) for turn in np.random.default_rng([30001, seed]).permutation(turns)]
