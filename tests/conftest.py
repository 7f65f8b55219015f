"""Settings that every test shares."""

from hypothesis import settings

# A busy machine is not a bug, and a failure must come back when it is looked for.
settings.register_profile("proxyprox", deadline=None, derandomize=True)
settings.load_profile("proxyprox")
