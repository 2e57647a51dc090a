"""The steps that bring a store up to date, by Alembic. One never changes once released: a new version adds a file."""
