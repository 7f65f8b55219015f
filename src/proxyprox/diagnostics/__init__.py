"""Audits of proxies and plans of runs, built on runs."""
