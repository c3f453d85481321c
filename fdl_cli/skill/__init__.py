"""Skills for coding assistants: the bundled files, the tools' folders, the permitted changes.

This package knows files and their hashes; it must not know the terminal or the porter.
"""
