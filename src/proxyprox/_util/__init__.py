"""What every part needs and no user touches: arrays, checks, files, signals, texts."""
