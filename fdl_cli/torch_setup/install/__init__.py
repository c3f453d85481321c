"""Installation of a torch build: download, unpack, switch, and the project on top."""
