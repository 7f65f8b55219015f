"""One thread, so that sums are always rounded alike."""

from tests.torch.conftest import one_thread  # noqa: F401
