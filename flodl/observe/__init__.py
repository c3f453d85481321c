"""Numbers over time: metrics, trends, profiles and their exports.  Plain Python; it does not know torch."""
