"""Builder of the documentation site: tutorials are run, pages are staged, Zensical makes the HTML."""
