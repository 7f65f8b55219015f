"""Networks with few gradients of the target: schedules by hand, and those of the library."""
