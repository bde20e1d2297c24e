#!/usr/bin/env bash
# Installs what robopro-eval needs on this machine: system packages (with apt), and .venv/ in the checkout.
#
#   scripts/bootstrap.sh [--sim-only | --model-only] [--dev]
#
#   --sim-only     only what the simulator process needs (no torch)
#   --model-only   only what the model process needs (no sapien, no Vulkan)
#   --dev          also the tools of scripts/test.sh
#   PYTHON=...     the interpreter to build .venv with (default: the first suitable one found)
#
# It may be run as often as you like: when nothing changed it only checks, which takes a second. Where it
# may not install system packages (no apt, not root) it names the missing ones and stops with exit code 1.
set -euo pipefail
# shellcheck source=scripts/_env.sh
source "$(dirname "${BASH_SOURCE[0]}")/_env.sh"
cd "$REPO"

# SAPIEN's renderer needs what Mesa's CPU driver learned in this release; Debian 12 itself has 22.3.
MESA_MINIMUM=24.3
# One exact version: the shipped checkpoint's numbers were measured with it.
TORCH=2.13.0

say() { printf '==> %s\n' "$*"; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

want_sim=1 want_model=1 want_dev=0
for option in "$@"; do
  case $option in
    --sim-only) want_model=0 ;;
    --model-only) want_sim=0 ;;
    --dev) want_dev=1 ;;
    -h | --help)
      sed -n '2,/^set -euo/{/^set -euo/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *)
      printf 'error: %s is not an option of bootstrap.sh; --help lists them.\n' "$option" >&2
      exit 2
      ;;
  esac
done
[[ $want_sim == 1 || $want_model == 1 ]] || fail "--sim-only and --model-only exclude each other."

# ---------------------------------------------------------------- which Python

# Prints the first interpreter from 3.10 to 3.13: the range for which SAPIEN and the pinned torch exist.
# One that can already make virtual environments comes before one that needs python3-venv first.
find_python() {
  local name path needs_venv=""
  for name in ${PYTHON:-python3.11 python3 /usr/bin/python3 python3.12 python3.10 python3.13}; do
    path=$(PATH=${PATH#"$VENV/bin:"} command -v "$name") || continue
    "$path" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null || continue
    if "$path" -c 'import ensurepip, venv' 2>/dev/null; then
      printf '%s\n' "$path"
      return 0
    fi
    needs_venv=${needs_venv:-$path}
  done
  printf '%s\n' "$needs_venv"
}

# ---------------------------------------------------------------- which system packages

first_version() { { grep -oE '[0-9]+\.[0-9]+\.[0-9]+' || true; } | head -n 1; }

mesa_version() { # of the installed CPU driver; empty if there is none or it does not tell
  local description library
  if command -v dpkg-query >/dev/null; then
    dpkg-query -W -f '${Version}\n' mesa-vulkan-drivers 2>/dev/null | first_version
    return 0
  fi
  description=$(find_cpu_vulkan_driver)
  [[ -n $description ]] || return 0
  library=$(sed -n 's/.*"library_path": *"\([^"]*\)".*/\1/p' "$description")
  [[ -r $library ]] || return 0
  { grep -aoE 'Mesa [0-9]+\.[0-9]+\.[0-9]+' "$library" || true; } | first_version
}

older_than() { [[ $1 != "$2" && $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; }

# Libraries are asked of the dynamic loader and not of dpkg, so that other distributions get a true answer too.
# (Not `| grep -q`: it leaves early, and with pipefail the writer's broken pipe would count as "not there".)
has_library() { [[ $(ldconfig -p 2>/dev/null) == *[[:space:]]"$1 "* ]]; }

missing_packages() {
  local python version
  python=$(find_python)
  if [[ -z $python ]]; then
    echo python3
    echo python3-venv
  elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    "$python" -c 'import sys; v = sys.version_info; print(f"python{v.major}.{v.minor}-venv")'
  fi
  if [[ $want_sim == 1 ]]; then
    has_library libvulkan.so.1 || echo libvulkan1
    # opencv, which SAPIEN brings along, links these.
    has_library libGL.so.1 || echo libgl1
    has_library libgthread-2.0.so.0 || echo libglib2.0-0
    if [[ ! -e /dev/nvidiactl ]]; then
      version=$(mesa_version)
      if [[ -z $(find_cpu_vulkan_driver) ]] || { [[ -n $version ]] && older_than "$version" "$MESA_MINIMUM"; }; then
        echo mesa-vulkan-drivers
      fi
    fi
  fi
  if [[ $want_dev == 1 ]]; then
    command -v ip >/dev/null || echo iproute2
    # Runs the second implementation of the wire, tests/peers.
    command -v node >/dev/null || echo nodejs
  fi
}

# ---------------------------------------------------------------- installing them

# Sets SUDO to the words that run a command as root; says no where there are none.
become_root() {
  if [[ $(id -u) == 0 ]]; then
    SUDO=()
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    SUDO=(sudo -n)
  else
    return 1
  fi
}

apt() {
  "${SUDO[@]}" env DEBIAN_FRONTEND=noninteractive PATH="$PATH" apt-get -q -o Dpkg::Use-Pty=0 "$@" </dev/null
}

mesa_candidate() {
  apt-cache policy mesa-vulkan-drivers | sed -n 's/^ *Candidate: *//p' | first_version
}

# Adds this release's backports at the mirror that the machine already uses for the release itself.
add_backports() {
  local codename mirror keyring source
  # shellcheck disable=SC1091
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  # shellcheck disable=SC2016 # apt fills these in, not the shell
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(RELEASE)' 'Created-By: Packages' |
    awk -v release="$codename" '!found && ($2 == release || $3 == release) { print $1; found = 1 }')
  [[ -n $codename && -n $mirror ]] || return 1
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  source=/etc/apt/sources.list.d/robopro-eval-backports.sources
  say "adding $codename-backports to apt ($source)"
  {
    printf 'Types: deb\nURIs: %s\nSuites: %s-backports\nComponents: main\n' "$mirror" "$codename"
    [[ ! -r $keyring ]] || printf 'Signed-By: %s\n' "$keyring"
  } | "${SUDO[@]}" tee "$source" >/dev/null
  apt update
  BACKPORTS=$codename-backports
}

install_system_packages() {
  local -a packages ordinary=()
  local package candidate known mesa=0
  mapfile -t packages < <(missing_packages)
  [[ ${#packages[@]} -gt 0 ]] || return 0
  if ! command -v apt-get >/dev/null; then
    fail "these packages are missing and there is no apt-get here to install them: ${packages[*]}." \
      "(Names as Debian has them; mesa-vulkan-drivers must be $MESA_MINIMUM or newer.) Install them, then run this again."
  fi
  if ! become_root; then
    fail "these packages are missing and installing them needs root: ${packages[*]}." \
      "(mesa-vulkan-drivers must be $MESA_MINIMUM or newer; Debian 12 has it in bookworm-backports.)" \
      "Run this once as root, or ask an administrator for them."
  fi
  say "installing system packages: ${packages[*]}"
  apt update
  for package in "${packages[@]}"; do
    if [[ $package == mesa-vulkan-drivers ]]; then
      mesa=1
    elif [[ $package == libglib2.0-0 ]] && ! apt-cache show libglib2.0-0 >/dev/null 2>&1; then
      ordinary+=(libglib2.0-0t64) # its name since the 64-bit time transition
    else
      ordinary+=("$package")
    fi
  done
  if [[ ${#ordinary[@]} -gt 0 ]]; then
    apt install -y --no-install-recommends "${ordinary[@]}"
  fi
  if [[ $mesa == 1 ]]; then
    candidate=$(mesa_candidate)
    BACKPORTS=""
    if [[ -z $candidate ]] || older_than "$candidate" "$MESA_MINIMUM"; then
      # Already configured backports have a low priority, so they do not show as the candidate.
      # shellcheck disable=SC1091
      BACKPORTS=$(. /etc/os-release && echo "${VERSION_CODENAME:-}-backports")
      # shellcheck disable=SC2016
      known=$(apt-get indextargets --format ' $(RELEASE) $(CODENAME) ' 'Created-By: Packages')
      if [[ $known != *" $BACKPORTS "* ]]; then
        add_backports || fail "Mesa here is ${candidate:-absent} and apt knows no newer one;" \
          "install mesa-vulkan-drivers $MESA_MINIMUM or newer by hand, then run this again."
      fi
    fi
    apt install -y --no-install-recommends ${BACKPORTS:+-t "$BACKPORTS"} mesa-vulkan-drivers
  fi
  mapfile -t packages < <(missing_packages)
  [[ ${#packages[@]} -eq 0 ]] || fail "apt ran, but these are still missing or too old: ${packages[*]}."
}

# ---------------------------------------------------------------- the virtual environment

extras=()
[[ $want_sim == 0 ]] || extras+=(sim)
[[ $want_model == 0 ]] || extras+=(model)
[[ $want_dev == 0 ]] || extras+=(dev)

# What .venv was built from. A moved checkout needs a new one: virtual environments hold absolute paths.
fingerprint=$({ printf '%s\n' "$REPO"; cat pyproject.toml scripts/bootstrap.sh; } | sha256sum | cut -d ' ' -f 1)
stamp=$VENV/.bootstrap

# True if .venv holds everything asked for, and what it holds is really there.
is_ready() {
  local extra
  [[ -r $stamp && $(head -n 1 "$stamp") == "$fingerprint" ]] || return 1
  for extra in "${extras[@]}"; do
    grep -qx "$extra" "$stamp" || return 1
  done
  "$VENV/bin/python" -I - "$REPO" "${extras[@]}" <<'PYTHON'
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

WITNESS = {"sim": ["sapien", "imageio-ffmpeg"], "model": ["torch", "safetensors"], "dev": ["pytest", "mypy", "ruff"]}
try:
    for extra in sys.argv[2:]:
        for name in WITNESS[extra]:
            version(name)
except PackageNotFoundError as missing:
    sys.exit(f"{missing} is no longer installed")
spec = find_spec("sim_endpoint")
if spec is None or not str(spec.origin).startswith(sys.argv[1]):
    sys.exit("the checkout is not installed")
PYTHON
}

pip() { # shows what is fetched and installed, not what was there already
  "$VENV/bin/python" -m pip --disable-pip-version-check --no-input "$@" --progress-bar off </dev/null 2>&1 |
    { grep -vE '^(Requirement already|Looking in|WARNING: Location| +(Building|Preparing|Getting|Installing build|Checking|Created|Stored))' || true; }
}

# True for a .venv worth keeping, be it unfinished: it runs, and it was made here (its scripts hold its path).
is_usable() {
  "$VENV/bin/python" -c 'import pip, sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null &&
    [[ $(head -n 1 "$VENV/bin/pip") == "#!$VENV/bin/python"* ]]
}

build_venv() {
  local python list
  if is_usable; then
    # Keep the extras it already has: a model-only run must not make a simulator's machine forget.
    if [[ -r $stamp ]]; then
      mapfile -t extras < <({ tail -n +2 "$stamp"; printf '%s\n' "${extras[@]}"; } | sort -u)
    fi
  else
    python=$(find_python)
    say "making .venv with $python ($("$python" -V))"
    rm -rf "$VENV"
    "$python" -m venv "$VENV"
  fi
  rm -f "$stamp"
  if [[ " ${extras[*]} " == *" model "* ]]; then
    say "installing torch $TORCH (pip)"
    pip install "torch==$TORCH"
  fi
  say "installing robopro-eval with: ${extras[*]} (pip)"
  list=$(IFS=,; echo "${extras[*]}")
  pip install --editable ".[$list]"
  printf '%s\n' "$fingerprint" "${extras[@]}" >"$stamp"
}

install_system_packages
# shellcheck source=scripts/_env.sh
source "$REPO/scripts/_env.sh" # again: the Vulkan driver may have arrived just now
if ! is_ready; then
  build_venv
  is_ready || fail "the installation in .venv is not complete; remove the folder .venv and run this again."
fi
say "ready: .venv ($("$VENV/bin/python" -V), ${extras[*]})"
