# shellcheck shell=bash
# Sourced by the other scripts: where the checkout is, and the environment its programs need.
#
# Sets REPO (the checkout), VENV (its virtual environment), puts VENV/bin first on PATH, and points
# the Vulkan loader at Mesa's CPU driver where there is no GPU and nobody chose a driver.

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$REPO/.venv
export REPO VENV

# Minimal environments (env -i, cron, srun) leave sbin out, and apt's own tools live there.
case ":$PATH:" in
  *:/usr/sbin:*) ;;
  *) PATH=$PATH:/usr/sbin:/sbin ;;
esac
PATH=$VENV/bin:$PATH
export PATH

# Prints Mesa's CPU driver description, whichever name this Mesa gives it; nothing if there is none.
find_cpu_vulkan_driver() {
  local candidate
  for candidate in /usr/share/vulkan/icd.d/lvp_icd*.json /etc/vulkan/icd.d/lvp_icd*.json \
    /usr/local/share/vulkan/icd.d/lvp_icd*.json; do
    if [[ -r $candidate ]]; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done
  return 0
}

if [[ -z ${VK_ICD_FILENAMES:-} && -z ${VK_DRIVER_FILES:-} && ! -e /dev/nvidiactl && ! -e /dev/dri/renderD128 ]]; then
  driver=$(find_cpu_vulkan_driver)
  if [[ -n $driver ]]; then
    export VK_ICD_FILENAMES=$driver
  fi
  unset driver
fi
