"""Judgements: audits and plans, which parts are chosen, how a run went, when to drop a proxy."""
