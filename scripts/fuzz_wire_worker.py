"""One target under atheris, in a process of its own; `fuzz_wire.py` starts it: TARGET FILE libFuzzer's arguments.

FILE gets the worst ratio of memory to input whenever there is a worse one, since libFuzzer ends the process without
asking.
"""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

with atheris.instrument_imports(include=["framing", "robopro_eval.transport.auth"]):
    from fuzz_wire_targets import TARGETS, measured


def main() -> None:
    name, file = sys.argv[1], Path(sys.argv[2])
    target, worst = TARGETS[name], 0.0

    def one_input(data: bytes) -> None:
        nonlocal worst
        ratio = measured(target, data)
        if ratio > worst:
            worst = ratio
            file.write_text(f"{worst:.3f}", encoding="ascii")

    tracemalloc.start()
    atheris.Setup([sys.argv[0], *sys.argv[3:]], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
