"""Finding a Vulkan driver without asking the user. No SAPIEN import: it must run before SAPIEN's renderer starts."""

from __future__ import annotations

import os
from pathlib import Path

# Where Debian, Fedora and a locally built Mesa put driver manifests.
MANIFEST_FOLDERS = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d")
# A GPU that can render shows up as one of these; /dev/dri/card* alone may be a plain framebuffer.
_GPU_NODES = ("/dev/nvidiactl", "/dev/dri/renderD128")


def choose_vulkan_driver() -> str | None:
    """Point Vulkan at Mesa's CPU driver when the machine has no GPU and nothing was chosen yet.

    Sets `VK_ICD_FILENAMES` for this process only, so that the loader does not first try GPU drivers that print errors.
    Returns the manifest set, or None when the environment already chose or a GPU is there.
    """
    if os.environ.get("VK_ICD_FILENAMES") or os.environ.get("VK_DRIVER_FILES"):
        return None
    if any(Path(node).exists() for node in _GPU_NODES):
        return None
    for folder in MANIFEST_FOLDERS:
        for manifest in sorted(Path(folder).glob("lvp_icd*.json")):
            os.environ["VK_ICD_FILENAMES"] = str(manifest)
            return str(manifest)
    return None
