"""Skills for coding assistants: what is bundled, where tools look for it, what may be changed.

This room knows files and their hashes; it must not know the terminal or the porter.
"""
