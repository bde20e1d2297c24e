"""Which Vulkan devices this machine has, asked of the Vulkan loader directly.

SAPIEN only says that it found none. A person who repairs an installation needs the device's name and the driver's
version, so this talks to ``libvulkan`` through ctypes: one instance, no window, nothing drawn. A broken driver may
crash its process, so call :func:`list_devices` in a process you can spare (``sim_endpoint.doctor`` does).
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass

MESA_MINIMUM = (24, 3, 0)
"""From this release on Mesa's CPU driver (lavapipe) renders SAPIEN's scenes; Debian 12 itself has 22.3."""

_LOADERS = ("libvulkan.so.1", "libvulkan.so")
_KINDS = {1: "integrated GPU", 2: "GPU", 3: "virtual GPU", 4: "CPU"}

# Values of VkStructureType, VkResult and VkDriverId, from the Vulkan 1.2 specification.
_APPLICATION_INFO = 0
_INSTANCE_CREATE_INFO = 1
_DEVICE_PROPERTIES_2 = 1000059001
_DRIVER_PROPERTIES = 1000196000
_INCOMPATIBLE_DRIVER = -9
_LAVAPIPE = 13
_VULKAN_1_2 = (1 << 22) | (2 << 12)


class VulkanUnavailable(Exception):
    """No loader, no driver, or a driver that refuses to start; the message is one sentence."""


@dataclass(frozen=True)
class VulkanDevice:
    """One device as its driver describes it; ``driver`` reads like "llvmpipe Mesa 25.0.7-2 (LLVM 15.0.6)"."""

    name: str
    kind: str
    driver: str
    is_lavapipe: bool

    @property
    def mesa_version(self) -> tuple[int, ...] | None:
        """(major, minor, patch), or None where the driver is not Mesa's."""
        found = re.search(r"Mesa (\d+)\.(\d+)\.(\d+)", self.driver)
        return tuple(int(part) for part in found.groups()) if found else None

    @property
    def is_too_old(self) -> bool:
        version = self.mesa_version
        return self.is_lavapipe and version is not None and version < MESA_MINIMUM


class _ApplicationInfo(ctypes.Structure):
    _fields_ = (
        ("sType", ctypes.c_int),
        ("pNext", ctypes.c_void_p),
        ("pApplicationName", ctypes.c_char_p),
        ("applicationVersion", ctypes.c_uint32),
        ("pEngineName", ctypes.c_char_p),
        ("engineVersion", ctypes.c_uint32),
        ("apiVersion", ctypes.c_uint32),
    )


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = (
        ("sType", ctypes.c_int),
        ("pNext", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("pApplicationInfo", ctypes.POINTER(_ApplicationInfo)),
        ("enabledLayerCount", ctypes.c_uint32),
        ("ppEnabledLayerNames", ctypes.c_void_p),
        ("enabledExtensionCount", ctypes.c_uint32),
        ("ppEnabledExtensionNames", ctypes.c_void_p),
    )


class _DriverProperties(ctypes.Structure):
    _fields_ = (
        ("sType", ctypes.c_int),
        ("pNext", ctypes.c_void_p),
        ("driverID", ctypes.c_int),
        ("driverName", ctypes.c_char * 256),
        ("driverInfo", ctypes.c_char * 256),
        ("conformanceVersion", ctypes.c_uint8 * 4),
    )


class _DeviceProperties(ctypes.Structure):
    _fields_ = (
        ("sType", ctypes.c_int),
        ("pNext", ctypes.c_void_p),
        ("apiVersion", ctypes.c_uint32),
        ("driverVersion", ctypes.c_uint32),
        ("vendorID", ctypes.c_uint32),
        ("deviceID", ctypes.c_uint32),
        ("deviceType", ctypes.c_int),
        ("deviceName", ctypes.c_char * 256),
        ("pipelineCacheUUID", ctypes.c_uint8 * 16),
        ("limits_and_sparse", ctypes.c_uint64 * 128),  # 524 bytes in the specification, never read here
    )


def _load() -> ctypes.CDLL:
    for name in _LOADERS:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise VulkanUnavailable(f"the Vulkan loader ({_LOADERS[0]}) is not installed")


def list_devices() -> list[VulkanDevice]:
    """Every device the loader offers, in its order.

    Raises VulkanUnavailable if there is no loader, no driver or no device.
    """
    library = _load()
    application = _ApplicationInfo(sType=_APPLICATION_INFO, apiVersion=_VULKAN_1_2)
    request = _InstanceCreateInfo(sType=_INSTANCE_CREATE_INFO, pApplicationInfo=ctypes.pointer(application))
    instance = ctypes.c_void_p()
    result = library.vkCreateInstance(ctypes.byref(request), None, ctypes.byref(instance))
    if result == _INCOMPATIBLE_DRIVER:
        raise VulkanUnavailable("the Vulkan loader found no driver that starts")
    if result != 0:
        raise VulkanUnavailable(f"the Vulkan driver does not start (VkResult {result})")
    try:
        count = ctypes.c_uint32(0)
        if library.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None) < 0 or count.value == 0:
            raise VulkanUnavailable("the Vulkan drivers offer no device")
        handles = (ctypes.c_void_p * count.value)()
        library.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles)
        return [_describe(library, handle) for handle in handles]
    finally:
        library.vkDestroyInstance(instance, None)


def _describe(library: ctypes.CDLL, handle: int | None) -> VulkanDevice:
    driver = _DriverProperties(sType=_DRIVER_PROPERTIES)
    raw = _DeviceProperties(sType=_DEVICE_PROPERTIES_2, pNext=ctypes.addressof(driver))
    library.vkGetPhysicalDeviceProperties2(ctypes.c_void_p(handle), ctypes.byref(raw))
    return VulkanDevice(
        name=_text(raw.deviceName),
        kind=_KINDS.get(int(raw.deviceType), "other device"),
        driver=f"{_text(driver.driverName)} {_text(driver.driverInfo)}".strip(),
        is_lavapipe=int(driver.driverID) == _LAVAPIPE,
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
