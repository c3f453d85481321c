"""The tests of transformers as a package, for their relative imports."""
