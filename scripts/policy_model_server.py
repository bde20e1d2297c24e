"""The stock name of the model program: the same as ``eval-model``."""

import sys

from model_endpoint.cli import main

if __name__ == "__main__":
    sys.exit(main())
