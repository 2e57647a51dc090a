"""Runs planned statements: sessions, jobs with their supervisors, whole SQL files and what they report."""
