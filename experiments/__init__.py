"""Reproductions of the paper's experiments, one file each; not part of the installed package.

Run them from the root of a clone: ``make figure1`` or ``python -m experiments.mushrooms --help``.
"""
