"""Compute capability of a GPU from its name or PCI id, for drivers that do not report it.

A name table can be wrong for a card that is newer than the table, so whoever uses it must say
that the value was inferred.
"""

import re
from typing import Final

Capability = tuple[int, int]

# Checked from top to bottom: the first pattern found in the name decides, so longer and more
# special names precede the shorter ones that they contain.
_NAMES: Final[tuple[tuple[str, Capability], ...]] = (
    (r"\bGB10\b", (12, 1)),
    (r"\bThor\b", (11, 0)),
    (r"\bOrin\b", (8, 7)),
    (r"\bXavier\b", (7, 2)),
    (r"\bTegra X2\b|\bTX2\b", (6, 2)),
    (r"\bTegra X1\b|\bJetson Nano\b|\bNano\b", (5, 3)),
    (r"\b[GB]?B300\b", (10, 3)),
    (r"\b(G?B[12]00|GB200)\b", (10, 0)),
    (r"\bTITAN RTX\b|\bQuadro RTX\b", (7, 5)),
    (r"\bRTX \d{3,4} (SFF )?Ada\b|\b(L4|L40S?|L20|L2)\b|\bRTX 40[5-9]0\b", (8, 9)),
    (r"\bRTX PRO [2-6]\d00\b|\bRTX 50[5-9]0\b|\bRTX PRO \d+ Blackwell\b", (12, 0)),
    (r"\b(GH200|H200|H100|H800|H20)\b", (9, 0)),
    (r"\b(A100X?|A800|A30X?)\b", (8, 0)),
    (r"\b(A2|A10G?|A16|A40)\b|\bRTX 30\d\d\b|\bRTX A\d{3,4}\b|\bRTX 2050\b|\bA\d000\b", (8, 6)),
    (r"\bMX450\b|\bMX550\b|\bT4G?\b|\bT\d{3,4}\b|\bGTX 16\d\d\b|\bRTX 20\d\d\b", (7, 5)),
    (r"\bRTX [3-8]000\b", (7, 5)),
    (r"\bV100S?\b|\bTITAN V\b|\bGV100\b", (7, 0)),
    (r"\bP100\b|\bGP100\b", (6, 0)),
    (r"\b(P4|P40|P6)\b|\bGTX 10\d\d\b|\bGT 10[13]0\b|\bTITAN Xp?\b|\bQuadro P\d{3,4}\b", (6, 1)),
    (r"\bMX(130|230)\b", (5, 0)),
    (r"\bMX(1[15]0|250|3[35]0)\b", (6, 1)),
    (r"\b(M4|M6|M40|M60)\b|\bGTX 9[5-8]0|\bGTX TITAN X\b|\bQuadro M[456]000\b", (5, 2)),
    (r"\bM10\b|\bGTX 7[45]0|\bQuadro M\d{3,4}\b|\b9[34]0MX?\b", (5, 0)),
    (r"\bQuadro K(620|1200|2200)\b", (5, 0)),
    (r"\bK80\b", (3, 7)),
    (r"\b(K20[cmsX]*|K40[cmst]*)\b|\bQuadro K6000\b", (3, 5)),
    (r"\bGTX 780\b|\bGTX TITAN\b|\bGT 7[123]0\b", (3, 5)),
    (r"\bQuadro K\d{3,4}\b|\b(K10|K1|K2|K340|K520)\b|\bGTX [67]\d0\b|\bGT 6\d0\b", (3, 0)),
)

# NVIDIA numbers its chips upwards: the first id of each generation.
_PCI_STARTS: Final[tuple[tuple[int, Capability | None], ...]] = (
    (0x0FC0, (3, 0)),
    (0x1340, (5, 0)),
    (0x13C0, (5, 2)),
    (0x15F0, (6, 0)),
    (0x1600, (5, 2)),
    (0x1700, (5, 2)),
    (0x1AF0, (6, 0)),
    (0x1B00, (6, 1)),
    (0x1D80, (7, 0)),
    (0x1E00, (7, 5)),
    (0x2000, (8, 0)),
    (0x2180, (7, 5)),
    (0x2200, (8, 6)),
    (0x2300, (9, 0)),
    (0x2400, (8, 6)),
    (0x2680, (8, 9)),
    (0x2900, (10, 0)),
    (0x2B80, (12, 0)),
    (0x3180, (10, 3)),
    (0x3200, None),
)


def compute_cap_of_name(name: str) -> Capability | None:
    """Return the compute capability that a product name implies, if the table knows it.

    Example:
        >>> compute_cap_of_name("Tesla V100-SXM2-16GB")
        (7, 0)
    """
    for pattern, capability in _NAMES:
        if re.search(pattern, name, re.IGNORECASE):
            return capability
    return None


def compute_cap_of_pci(device: str) -> Capability | None:
    """Return the compute capability of a PCI id such as `10de:1c8d`.

    Example:
        >>> compute_cap_of_pci("10de:1c8d")
        (6, 1)
    """
    vendor, _, number = device.lower().partition(":")
    if vendor != "10de" or not re.fullmatch(r"[0-9a-f]{4}", number):
        return None
    found: Capability | None = None
    for start, capability in _PCI_STARTS:
        if int(number, 16) < start:
            break
        found = capability
    return found
