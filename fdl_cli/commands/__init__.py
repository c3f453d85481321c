"""The commands of `fdl`, one module each: `(context, options) -> result`.

A command never prints, never exits and never reads `sys.argv`; packages beside each other meet here.
"""
