"""Texts and lines of pictures can be read by people with weak sight, on light and on dark ground."""

import re

import pytest

from flodl.visual.theme import COLOURS, heat_colour, ink_on, style_sheet

LIGHT, DARK = style_sheet().split("@media (prefers-color-scheme:dark)")
PAGES = {"light": "#ffffff", "dark": "#0f1317"}


def lightness(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    low, high = sorted((lightness(one), lightness(two)))
    return (high + 0.05) / (low + 0.05)


def colour_of(theme, selector, prop):
    sheet = LIGHT if theme == "light" else DARK
    return re.search(rf"{re.escape(selector)}{{[^}}]*?{prop}:(#[0-9a-f]{{6}})", sheet)[1]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("selector", [".fd text", ".fd .fd-m", ".fd .fd-g"])
def test_texts_have_contrast_on_every_box_and_on_the_page(theme, selector):
    ink = colour_of(theme, selector, "fill")
    fills = [each[0 if theme == "light" else 2] for each in COLOURS.values()]
    assert colour_of(theme, ".fd-page", "fill") == PAGES[theme]
    assert min(contrast(ink, fill) for fill in (*fills, PAGES[theme])) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_outlines_and_links_have_contrast_on_every_ground(theme):
    place = 0 if theme == "light" else 2
    link = colour_of(theme, ".fd-e", "stroke")
    for fill, outline in (each[place : place + 2] for each in COLOURS.values()):
        assert contrast(outline, PAGES[theme]) >= 3
        assert contrast(link, fill) >= 3
    assert contrast(link, PAGES[theme]) >= 3


def test_texts_on_the_colours_of_heat_have_contrast():
    shares = [step / 500 for step in range(501)]
    assert min(contrast(heat_colour(share), ink_on(share)) for share in shares) >= 4.5
