"""Tests of `generate`: none."""
