"""CIFAR-10 from any of its usual forms, as two uint8 arrays.

Looked for in the folder named by ``PROXYPROX_DATA``, then in the user's cache: torchvision's
standard archive (``cifar-10-python.tar.gz``, or the folder it unpacks to), a folder of images
(``cifar10/train/<class>/*.png``, ``cifar10/test/<class>/*.png``), and ``cifar10-jpeg75.tar.xz``,
all images as JPEG of quality 75.
"""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from experiments.datasets import (
    DATA_VARIABLE,
    DatasetCorruptError,
    DatasetNotFoundError,
    cache_folder,
    user_folder,
)
from proxyprox._util.extras import require
from proxyprox._util.files import atomic_output

CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
ARCHIVE, UNPACKED = "cifar-10-python.tar.gz", "cifar-10-batches-py"
JPEGS, FOLDER = "cifar10-jpeg75.tar.xz", "cifar10"
TRAIN_FILES = tuple(f"data_batch_{i}" for i in range(1, 6))
SIDE, ROW = 32, 3 * 32 * 32

Array = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Images:
    """Training and test images, (n, 32, 32, 3), with their classes, and where they came from."""

    train: Array
    train_labels: Array
    test: Array
    test_labels: Array
    source: str


def load(folder: str | os.PathLike[str] | None = None) -> Images:
    """Return CIFAR-10 from the first place that has it.

    Parameters
    ----------
    folder : path-like, optional
        Where to look; by default ``PROXYPROX_DATA`` and the user's cache.

    Raises
    ------
    DatasetNotFoundError
        When no form of the set is there.
    DatasetCorruptError
        When a file is not what its name says.
    """
    places = [Path(folder)] if folder is not None else [*filter(None, [user_folder()])]
    places = places if folder is not None else [*places, cache_folder()]
    for place in places:
        if (place / UNPACKED).is_dir():
            return _batches(lambda name, p=place / UNPACKED: (p / name).open("rb"), UNPACKED)
        if (place / ARCHIVE).is_file():
            with tarfile.open(place / ARCHIVE) as tar:
                return _batches(lambda name, t=tar: _member(t, f"{UNPACKED}/{name}"), ARCHIVE)
        if (place / FOLDER / "train").is_dir():
            return _image_folder(place / FOLDER)
        if (place / JPEGS).is_file():
            return _jpegs(place / JPEGS)
    looked = " and ".join(str(place) for place in places)
    raise DatasetNotFoundError(
        f"CIFAR-10 is not in {looked}. Put {ARCHIVE} (from "
        f"https://www.cs.toronto.edu/~kriz/cifar.html), a folder {FOLDER}/train/<class>/*.png with "
        f"{FOLDER}/test/…, or {JPEGS} there, or name its folder in {DATA_VARIABLE}."
    )


def synthetic(train: int, test: int, seed: int = 0) -> Images:
    """Return images that a small network can tell apart, for trials without the real set.

    Parameters
    ----------
    train, test : int
        Numbers of images.
    seed : int
        Of everything.
    """
    rng = np.random.default_rng(seed)
    coarse = rng.normal(size=(10, 4, 4, 3))
    patterns = coarse.repeat(SIDE // 4, axis=1).repeat(SIDE // 4, axis=2)
    labels = rng.integers(0, 10, size=train + test).astype(np.uint8)
    noise = rng.normal(size=(train + test, SIDE, SIDE, 3))
    pixels = np.clip(128 + 25 * patterns[labels] + 45 * noise, 0, 255).astype(np.uint8)
    return Images(pixels[:train], labels[:train], pixels[train:], labels[train:], "synthetic")


class _ArraysOnly(pickle.Unpickler):
    """Reads the standard archive's pickles, which hold arrays, and refuses all else."""

    ALLOWED = frozenset(
        {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("_codecs", "encode"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} has no business in an image archive")
        if name == "_reconstruct":
            module = "numpy._core.multiarray" if hasattr(np, "_core") else "numpy.core.multiarray"
        return super().find_class(module, name)


def _batches(opened: Any, source: str) -> Images:
    parts = []
    for name in (*TRAIN_FILES, "test_batch"):
        try:
            with opened(name) as file:
                content = _ArraysOnly(file, encoding="bytes").load()
            rows = np.asarray(content[b"data"], dtype=np.uint8).reshape(-1, 3, SIDE, SIDE)
            labels = np.asarray(content[b"labels"], dtype=np.uint8)
            if len(rows) != len(labels):
                raise ValueError(f"{len(rows)} images, {len(labels)} labels")
        except (OSError, KeyError, ValueError, TypeError, EOFError, pickle.UnpicklingError) as bad:
            raise DatasetCorruptError(f"{source}, {name}: {bad}. Download it again.") from bad
        parts.append((rows.transpose(0, 2, 3, 1), labels))
    train, test = parts[:-1], parts[-1]
    return Images(
        np.concatenate([x for x, _ in train]), np.concatenate([y for _, y in train]), *test, source
    )


def _member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    file = tar.extractfile(name)
    if file is None:
        raise KeyError(f"{name} is not a file")
    return file


def _image_folder(folder: Path) -> Images:
    def files(part: str) -> Iterator[tuple[int, bytes]]:
        for label, name in enumerate(CLASSES):
            for path in sorted((folder / part / name).glob("*.*")):
                yield label, path.read_bytes()

    return _images(_decoded(files("train")), _decoded(files("test")), str(folder.name))


def _jpegs(path: Path) -> Images:
    """Decode the archive once; afterwards one array file in the cache is read."""
    stamp = f"{path.stat().st_size:x}"
    cached = cache_folder() / f"cifar10-jpeg75-{stamp}.npy"
    if cached.is_file():
        rows = np.load(cached, allow_pickle=False)
    else:
        rows = _decode_archive(path)
        cached.parent.mkdir(parents=True, exist_ok=True)
        with atomic_output(cached) as file:
            np.save(file, rows, allow_pickle=False)
    if rows.shape != (60_000, 1 + ROW) or rows.dtype != np.uint8:
        raise DatasetCorruptError(
            f"{path.name} holds {rows.shape[0]} images, not 60,000. Fetch it again, and remove "
            f"{cached}."
        )
    return _images(rows[:50_000], rows[50_000:], JPEGS)


def _decode_archive(path: Path) -> Array:
    found: dict[str, list[tuple[str, int, bytes]]] = {"train": [], "test": []}
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                parts = Path(member.name).parts
                if member.isfile() and len(parts) >= 3 and parts[-3] in found:
                    file = tar.extractfile(member)
                    assert file is not None
                    label = CLASSES.index(parts[-2])
                    found[parts[-3]].append((member.name, label, file.read()))
    except (tarfile.TarError, EOFError, OSError, ValueError) as bad:
        raise DatasetCorruptError(f"{path.name} cannot be read ({bad}). Fetch it again.") from bad
    halves = [_decoded((label, data) for _, label, data in sorted(found[k])) for k in found]
    return np.concatenate(halves)


def _decoded(files: Iterable[tuple[int, bytes]]) -> Array:
    """Return rows of one label and 3072 pixels, which is one file's worth of array."""
    image = require("PIL.Image", extra="app", purpose="reading image files")
    rows = []
    for label, data in files:
        with image.open(io.BytesIO(data)) as picture:
            pixels = np.asarray(picture.convert("RGB"), dtype=np.uint8)
        if pixels.shape != (SIDE, SIDE, 3):
            raise DatasetCorruptError(f"an image has the shape {pixels.shape}, not (32, 32, 3).")
        rows.append(np.concatenate([[np.uint8(label)], pixels.reshape(-1)]))
    if not rows:
        raise DatasetCorruptError("there are no images in the folders of the ten classes.")
    return np.stack(rows)


def _images(train: Array, test: Array, source: str) -> Images:
    def split(rows: Array) -> tuple[Array, Array]:
        return rows[:, 1:].reshape(-1, SIDE, SIDE, 3), rows[:, 0]

    return Images(*split(train), *split(test), source)
