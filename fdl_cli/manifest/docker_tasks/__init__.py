"""Tasks that run in the Docker services of a project."""
