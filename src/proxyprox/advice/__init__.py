"""Advice on a run before it is made, and the thresholds it rests on."""
