"""Reproductions: run from the root of a clone, not part of the installed package."""
