"""A study: one's own tables made into a problem, and methods compared on it.

``config`` reads the TOML file, ``problem`` builds the losses, the methods and the weights, and
``compare`` tunes the step sizes and runs every method in worker processes.
"""
