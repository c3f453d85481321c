"""Stands for the tests of `generate`, which the source distribution has not, so that others import."""


class GenerationTesterMixin:
    """Has no tests."""
