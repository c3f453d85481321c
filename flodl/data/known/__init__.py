"""Known data sets, read from their files without running anything."""
