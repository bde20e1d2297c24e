"""RoboPRO's name for the model program; the same as ``eval-model``."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from model_endpoint.cli import main

    raise SystemExit(main())
