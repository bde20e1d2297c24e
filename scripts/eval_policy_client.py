"""RoboPRO's name for the simulator program; the same as ``eval-sim``."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from sim_endpoint.cli import main

    raise SystemExit(main())
