"""Shows training while it runs and afterwards: terminal line, stored runs, live page, exports.

This room knows runs, graphs and pictures; it must not know the loop that trains.
"""
