"""The PCI bus: vendor, device, class and bound driver of every display device."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

NVIDIA: Final = "10de"
AMD: Final = "1002"
INTEL: Final = "8086"

# 0x03 display (VGA, XGA, 3D, other) and 0x12 processing accelerator.
_GPU_CLASSES: Final = ("03", "12")
_LINE = re.compile(
    r"^(?P<slot>[0-9a-fA-F:.]+)\s+vendor=0x(?P<vendor>[0-9a-fA-F]{4})\s+"
    r"device=0x(?P<device>[0-9a-fA-F]{4})\s+class=0x(?P<kind>[0-9a-fA-F]{6})"
    r"(?:\s+driver=(?P<driver>\S*))?"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PciDevice:
    """One device: ids are four lower-case hexadecimal digits; `driver` is None when unbound."""

    slot: str
    vendor: str
    device: str
    kind: str
    driver: str | None

    @property
    def is_gpu(self) -> bool:
        """Return True if this is a display or compute device."""
        return self.kind[:2] in _GPU_CLASSES

    @property
    def name(self) -> str:
        """Return `vendor:device`."""
        return f"{self.vendor}:{self.device}"

    def text(self) -> str:
        """Return the line that `read_line` reads back."""
        return (
            f"{self.slot} vendor=0x{self.vendor} device=0x{self.device} "
            f"class=0x{self.kind} driver={self.driver or ''}"
        )


def read_line(line: str) -> PciDevice | None:
    """Read one line in the form that `PciDevice.text` writes.

    Example:
        >>> read_line("0000:03:00.0 vendor=0x8086 device=0xe20b class=0x030000 driver=xe").name
        '8086:e20b'
    """
    found = _LINE.match(line.strip())
    if found is None:
        return None
    driver = found.group("driver")
    return PciDevice(
        slot=found.group("slot"),
        vendor=found.group("vendor").lower(),
        device=found.group("device").lower(),
        kind=found.group("kind").lower(),
        driver=driver if driver and driver.lower() != "none" else None,
    )


def list_gpus(root: Path = Path("/sys/bus/pci/devices")) -> tuple[PciDevice, ...]:
    """Return the display devices of this machine; nothing where there is no PCI bus."""
    try:
        folders = sorted(root.iterdir())
    except OSError:
        return ()
    devices = (_read_folder(folder) for folder in folders)
    return tuple(device for device in devices if device is not None and device.is_gpu)


def _read_folder(folder: Path) -> PciDevice | None:
    values = [_read_hex(folder / name) for name in ("vendor", "device", "class")]
    vendor, device, kind = values
    if vendor is None or device is None or kind is None:
        return None
    driver = folder / "driver"
    return PciDevice(
        slot=folder.name,
        vendor=vendor,
        device=device,
        kind=kind.zfill(6),
        driver=driver.resolve().name if driver.exists() else None,
    )


def _read_hex(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip().lower().removeprefix("0x")
    except (OSError, UnicodeDecodeError):
        return None
