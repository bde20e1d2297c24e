"""Choosing the Vulkan driver and the shader pack before the first camera exists.

SAPIEN's default pack spends seconds on a CPU computing a lookup table for image-based lighting, which a tabletop with
one lamp does not need. This module derives a lighter pack *at run time* from the `minimal` pack of the installed SAPIEN
(its shader files are never shipped): the two image-based-lighting samplers go, the shadow filter takes 4 taps instead
of 25. When the installed version does not look as expected, the default pack is used, with one warning.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import shutil
import tempfile
from importlib import resources
from pathlib import Path

import sapien

from robopro_eval.simulators.tabletop.vulkan import choose_vulkan_driver

_LOG = logging.getLogger(__name__)

# Part of the cache folder's name: raise it whenever the edits below change, so that an old cache is not reused.
PACK_REVISION = 1

_IBL_DECLARATIONS = re.compile(r"^layout\(.*\) uniform sampler(?:Cube samplerEnvironment|2D samplerBRDFLUT);\n", re.M)
_FUNCTION = r"^vec3 {name}\([^)]*\) \{{\n(?:.*\n)*?\}}\n"
_BACKGROUND = "vec3(0.62, 0.66, 0.70)"


class UnexpectedShader(Exception):
    """The installed shader pack does not contain the text an edit looks for."""


def prepare_renderer() -> str:
    """Select driver and shader pack for every camera created afterwards; returns the name of the pack in use.

    Safe to call before every scene and from several processes at once.
    """
    choose_vulkan_driver()
    # Eight bits a channel straight from the renderer: the same pixels, without a float copy of every picture.
    sapien.render.set_picture_format("Color", "r8g8b8a8unorm")
    wanted = _cached_pack()
    if wanted is None:
        return "default"
    if sapien.render.get_camera_shader_dir() != str(wanted):
        sapien.render.set_camera_shader_dir(str(wanted))
    return wanted.name


@functools.cache  # asked before every scene; also what makes the warning appear once
def _cached_pack() -> Path | None:
    source = Path(str(resources.files("sapien"))) / "vulkan_shader"
    version = getattr(sapien, "__version__", "unknown")
    try:
        target = _cache_root() / f"shaders-{version}-r{PACK_REVISION}" / "tabletop"
        if not target.is_dir():
            _derive(source, target)
    except (UnexpectedShader, OSError, RuntimeError) as reason:  # RuntimeError: a user without a home folder
        _LOG.warning(
            "using SAPIEN's default shaders (slower start on a CPU): the light pack cannot be made: %s", reason
        )
        return None
    return target


def _cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "robopro_eval"


def _derive(source: Path, target: Path) -> None:
    """Write the derived pack beside its final place and move it there in one step: several processes may race."""
    minimal, common = source / "minimal", source / "common"
    if not (minimal.is_dir() and common.is_dir()):
        raise UnexpectedShader(f"no minimal pack under {source}")
    target.parent.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="shaders-", dir=target.parent.parent))
    try:
        shutil.copytree(minimal, scratch / "tabletop")
        shutil.copytree(common, scratch / "common")
        _edit(scratch / "tabletop" / "gbuffer.frag", lighting=True)
        _edit(scratch / "tabletop" / "composite0.frag", lighting=False)
        _shorten_shadow_filter(scratch / "common" / "shadow.glsl")
        try:
            scratch.rename(target.parent)
        except OSError:
            if not target.is_dir():  # not merely another process that was faster
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _replace(text: str, pattern: re.Pattern[str] | str, by: str, what: str) -> str:
    changed, count = re.subn(pattern, by, text, flags=re.M if isinstance(pattern, str) else 0)
    if count == 0:
        raise UnexpectedShader(f"the installed minimal pack has no {what}")
    return changed


def _edit(path: Path, *, lighting: bool) -> None:
    text = path.read_text()
    text = _replace(text, _IBL_DECLARATIONS, "", f"image-based-lighting samplers in {path.name}")
    text = _replace(text, _FUNCTION.format(name="getBackgroundColor"), "", f"background function in {path.name}")
    if lighting:
        for name in ("diffuseIBL", "specularIBL"):
            text = _replace(text, _FUNCTION.format(name=name), "", name)
        text = _replace(text, r"^ *color \+= diffuseIBL\(.*\);\n", "", "call of diffuseIBL")
        text = _replace(text, r"^ *color \+= specularIBL\((?:.*\n)*?.*\);\n", "", "call of specularIBL")
    else:
        text = _replace(text, r"^ *vec3 bg = .*getBackgroundColor.*;\n", f"  vec3 bg = {_BACKGROUND};\n", "background")
    if "samplerEnvironment" in text or "samplerBRDFLUT" in text:
        raise UnexpectedShader(f"image-based lighting is used elsewhere in {path.name}")
    path.write_text(text)


def _shorten_shadow_filter(path: Path) -> None:
    text = path.read_text()
    text = _replace(text, r"const int PCF_SampleCount = 25;", "const int PCF_SampleCount = 4;", "shadow filter size")
    taps = "vec2 PCF_Samples[PCF_SampleCount] = {\n  {-0.5, -0.5}, {0.5, -0.5}, {-0.5, 0.5}, {0.5, 0.5}\n};\n"
    text = _replace(text, r"^vec2 PCF_Samples\[PCF_SampleCount\] = \{\n(?:.*\n)*?\};\n", taps, "shadow filter taps")
    path.write_text(text)
