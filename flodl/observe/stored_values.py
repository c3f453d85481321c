"""Checks of values that come out of files: a wrong one is refused before anything takes it over."""

from __future__ import annotations


def require_count(name: str, value: object) -> None:
    """Require a natural number.

    Raises:
        ValueError: it is something else.
    """
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} is {value!r}, not a natural number")


def require_number(name: str, value: object) -> None:
    """Require a number; it need not be finite.

    Raises:
        ValueError: it is something else.
    """
    if type(value) not in (int, float):
        raise ValueError(f"{name} is {value!r}, not a number")


def require_numbers(name: str, values: object) -> None:
    """Require a list of numbers.

    Raises:
        TypeError: it is no list.
        ValueError: it holds something else.
    """
    if not isinstance(values, list | tuple):
        raise TypeError(f"{name} is a {type(values).__name__}, not a list of numbers")
    for each in values:
        require_number(name, each)
