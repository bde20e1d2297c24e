#!/usr/bin/env bash
# Everything a change must pass: lint, format, types, tests. Installs what it needs first.
#
#   scripts/test.sh [pytest arguments]     e.g. scripts/test.sh -k framing
#
# It ends with pytest's own closing line, and with its exit code.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/bootstrap.sh" --dev
# shellcheck source=scripts/_env.sh
source "$here/_env.sh"
cd "$REPO"

step() { printf '==> %s\n' "$*"; }

step "shell syntax"
for script in scripts/*.sh .ci/run; do bash -n "$script"; done
step "ruff check"
ruff check .
step "ruff format --check"
ruff format --check .
# Without its cache, which has been seen to report errors that are not there after files changed places.
step "mypy --strict"
mypy --cache-dir=/dev/null
step "pytest"
exec python -m pytest "$@" </dev/null
