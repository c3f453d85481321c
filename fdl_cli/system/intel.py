"""Intel GPUs on the PCI bus, and the family of their device id."""

from pathlib import Path
from typing import Final

from fdl_cli.system.facts import IntelFacts, IntelGpu
from fdl_cli.system.pci import INTEL, PciDevice

# First matching prefix decides; ids are those of the kernel's i915 and xe drivers.
_FAMILIES: Final[tuple[tuple[str, str], ...]] = (
    ("0bd", "Data Center GPU Max"),
    ("0b6", "Data Center GPU Max"),
    ("56c", "Data Center GPU Flex"),
    ("569", "Alchemist"),
    ("56a", "Alchemist"),
    ("56b", "Alchemist"),
    ("4f8", "Alchemist"),
    ("e20", "Battlemage"),
    ("e21", "Battlemage"),
    ("e22", "Battlemage"),
    ("7d55", "Meteor Lake-H"),
    ("7dd5", "Meteor Lake-H"),
    ("7d40", "Meteor Lake-U"),
    ("7d45", "Meteor Lake-U"),
    ("7d60", "Meteor Lake-M"),
    ("7d51", "Arrow Lake-H"),
    ("7dd1", "Arrow Lake-H"),
    ("7d41", "Arrow Lake-U"),
    ("7d67", "Arrow Lake-S"),
    ("64", "Lunar Lake"),
    ("b08", "Panther Lake"),
    ("b09", "Panther Lake"),
    ("b0a", "Panther Lake"),
    ("b0b", "Panther Lake"),
    ("9a", "Tiger Lake Iris Xe"),
    ("46", "Alder Lake UHD"),
    ("a7", "Raptor Lake UHD"),
    ("4c", "Rocket Lake UHD"),
    ("8a", "Ice Lake Iris Plus"),
    ("3e", "Coffee Lake UHD"),
    ("9b", "Comet Lake UHD"),
    ("59", "Kaby Lake HD"),
    ("19", "Skylake HD"),
)

_DRIVERS: Final = ("xe", "i915")
_LEVEL_ZERO: Final = ("libze_intel_gpu.so.1", "libze_loader.so.1")
_LIBRARY_FOLDERS: Final = (
    Path("/usr/lib/x86_64-linux-gnu"),
    Path("/usr/lib64"),
    Path("/usr/lib"),
    Path("/usr/local/lib"),
)


def family_of(device_id: str) -> str:
    """Return the family of a device id.

    Example:
        >>> family_of("e20b"), family_of("ffff")
        ('Battlemage', 'unknown')
    """
    for prefix, family in _FAMILIES:
        if device_id.lower().startswith(prefix):
            return family
    return "unknown"


def read_intel(devices: tuple[PciDevice, ...]) -> IntelFacts:
    """Take the Intel GPUs out of a PCI listing; the driver is the one bound to any of them."""
    mine = [device for device in devices if device.vendor == INTEL and device.is_gpu]
    if not mine:
        return IntelFacts()
    bound = [device.driver for device in mine if device.driver in _DRIVERS]
    return IntelFacts(
        gpus=tuple(
            IntelGpu(device_id=device.device, family=family_of(device.device)) for device in mine
        ),
        driver=bound[0] if bound else None,
    )


def has_level_zero(folders: tuple[Path, ...] = _LIBRARY_FOLDERS) -> bool:
    """Return True if Intel's Level Zero driver library is installed."""
    return any((folder / _LEVEL_ZERO[0]).exists() for folder in folders)
