"""Experiments: configurations that run, their records, summaries, figures and reports."""
