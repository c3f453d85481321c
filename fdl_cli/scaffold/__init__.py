"""New projects from templates: render, plan, write at once, update later by a three-way merge.

This package knows files and templates; it must not know the terminal, the porter or torch.
"""
