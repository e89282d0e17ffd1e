"""Answers and times as drawings, files and code."""
