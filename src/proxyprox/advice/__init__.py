"""Judgements: which parts are chosen, how a run went, when to drop a proxy; all thresholds."""
