"""Colours of pictures, light and dark: one per role, and a heat scale that colour-blind people can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flodl.visual.scene import Role

# Fill and stroke on light ground, fill and stroke on dark ground.
COLOURS: dict[Role, tuple[str, str, str, str]] = {
    "input": ("#d3eef4", "#1f7f92", "#12343c", "#57b6c9"),
    "output": ("#dcf2da", "#38864a", "#16351d", "#6fc483"),
    "entry": ("#ffffff", "#87919c", "#1c2127", "#66717d"),
    "layer": ("#e6eefc", "#4470c0", "#1a2a49", "#7fa3ea"),
    "activation": ("#fff2d2", "#b9821a", "#3b2d0c", "#e0b253"),
    "norm": ("#e4f4e3", "#5a9a4e", "#1e3519", "#8fca82"),
    "operation": ("#eef0f3", "#7f8a96", "#262c33", "#98a4b1"),
    "operator": ("#ffffff", "#5d6873", "#1c2127", "#aab5c0"),
    "merge": ("#ffffff", "#5d6873", "#1c2127", "#aab5c0"),
    "loop": ("#f0e7fa", "#8456bd", "#2e2140", "#b78fe6"),
    "item": ("#f7f8f9", "#87919c", "#20262c", "#7d8894"),
    "graph": ("#e2e9fb", "#2c52a3", "#17233f", "#8fb0f5"),
    "repeat": ("#f7f8fa", "#7f8a96", "#191e24", "#707c88"),
    "state": ("#fdf4c9", "#a88a12", "#39310b", "#d8bd4a"),
    "pool": ("#fbe3ec", "#b8487a", "#3d1a2a", "#e68bb1"),
    "dropout": ("#f1ece6", "#8a7458", "#2f2822", "#bda78a"),
    "shape": ("#eef3d0", "#71801a", "#2b3110", "#b7c95a"),
    "choice": ("#fde6d3", "#bf6a24", "#402512", "#e89a5c"),
}
# Light to dark, one hue: lightness alone carries the meaning.
_WHITE_ABOVE = 0.735
_SCALE = ((255, 247, 214), (254, 196, 79), (217, 95, 14), (122, 30, 6))


def heat_colour(share: float) -> str:
    """Return the colour of a share between 0 (cheap) and 1 (the most expensive).

    Example:
        >>> from flodl.visual.theme import heat_colour
        >>> heat_colour(0.0), heat_colour(1.0)
        ('#fff7d6', '#7a1e06')
    """
    at = min(max(share, 0.0), 1.0) * (len(_SCALE) - 1)
    low = min(int(at), len(_SCALE) - 2)
    mixed = (
        round(one + (two - one) * (at - low))
        for one, two in zip(_SCALE[low], _SCALE[low + 1], strict=True)
    )
    return "#" + "".join(f"{value:02x}" for value in mixed)


def ink_on(share: float) -> str:
    """Return the text colour that reads well on the colour of a share."""
    # At this share black and white have the same contrast, 4.58; a softer black has less.
    return "#ffffff" if share > _WHITE_ABOVE else "#000000"


def style_sheet() -> str:
    """Return the style sheet of a picture; every class begins with `fd` so that pages are not disturbed."""
    light, dark = [], []
    for role, (fill, stroke, dark_fill, dark_stroke) in COLOURS.items():
        light.append(f".fd-{role}>.fd-s{{fill:{fill};stroke:{stroke}}}")
        dark.append(f".fd-{role}>.fd-s{{fill:{dark_fill};stroke:{dark_stroke}}}")
    return "".join(
        (
            (
                ".fd{font-family:Helvetica,Arial,'Liberation Sans',sans-serif}"
                ".fd text{text-anchor:middle;fill:#1b1f24;font-size:11px}"
                ".fd .fd-t{font-size:13px;font-weight:600}.fd .fd-o{font-size:15px}"
                ".fd .fd-m{fill:#59636e}.fd .fd-g{fill:#7c2cf0;font-weight:600}"
                ".fd-page{fill:#ffffff}.fd-s{stroke-width:1.2}"
                ".fd-e{fill:none;stroke:#6b7580;stroke-width:1.3}.fd-a{fill:#6b7580}"
                ".fd-c{fill:none;stroke:#c2600f;stroke-width:1.3;stroke-dasharray:2 3;"
                "stroke-linejoin:round}.fd-d{fill:#c2600f}"
                ".fd-repeat>.fd-s{stroke-dasharray:5 3}.fd-entry>.fd-s{stroke-dasharray:2 2}"
                ".fd .fd-h{text-anchor:start}"
            ),
            *light,
            (
                "@media (prefers-color-scheme:dark){"
                ".fd text{fill:#e8ecf0}.fd .fd-m{fill:#a5b0bb}.fd .fd-g{fill:#c4a1ff}"
                ".fd-page{fill:#0f1317}.fd-e{stroke:#8d99a5}.fd-a{fill:#8d99a5}"
                ".fd-c{stroke:#e89a5c}.fd-d{fill:#e89a5c}"
            ),
            *dark,
            "}",
        )
    )
