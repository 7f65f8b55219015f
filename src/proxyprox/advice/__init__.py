"""Judgements: which parts are chosen, how a run went, and when a proxy is given up."""
