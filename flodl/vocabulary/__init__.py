"""Flow words: stages, branches, loops, gates, switches, maps and scans."""
