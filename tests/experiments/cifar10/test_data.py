"""CIFAR-10 in each of the forms it comes in, built small."""

import io
import pickle
import tarfile

import numpy as np
import pytest

from experiments.cifar10 import data
from experiments.datasets import DatasetCorruptError, DatasetNotFoundError

PIL_Image = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def nowhere_else(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PROXYPROX_DATA", raising=False)


def rows(count, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 3072), dtype=np.uint8), rng.integers(0, 10, count).tolist()


def standard_folder(where, protocol=2):
    where.mkdir()
    for i, name in enumerate((*data.TRAIN_FILES, "test_batch")):
        pixels, labels = rows(4, i)
        content = {b"data": pixels, b"labels": labels, b"batch_label": b"x"}
        (where / name).write_bytes(pickle.dumps(content, protocol=protocol))


def test_the_standard_archive_and_its_folder(tmp_path, monkeypatch):
    standard_folder(tmp_path / data.UNPACKED)
    unpacked = data.load(tmp_path)
    pixels, labels = rows(4, 0)
    assert unpacked.train.shape == (20, 32, 32, 3)
    assert unpacked.test.shape == (4, 32, 32, 3)
    np.testing.assert_array_equal(unpacked.train_labels[:4], labels)
    np.testing.assert_array_equal(unpacked.train[0, :, :, 2].reshape(-1), pixels[0, 2048:])
    other = tmp_path / "other"
    other.mkdir()
    with tarfile.open(other / data.ARCHIVE, "w:gz") as tar:
        tar.add(tmp_path / data.UNPACKED, arcname=data.UNPACKED)
    monkeypatch.setenv("PROXYPROX_DATA", str(other))
    packed = data.load()
    np.testing.assert_array_equal(packed.train, unpacked.train)
    np.testing.assert_array_equal(packed.test_labels, unpacked.test_labels)


class Trap:
    def __reduce__(self):
        return (print, ("run!",))


def test_an_archive_cannot_run_code(tmp_path, capsys):
    standard_folder(tmp_path / data.UNPACKED)
    (tmp_path / data.UNPACKED / "test_batch").write_bytes(pickle.dumps({b"data": Trap()}))
    with pytest.raises(DatasetCorruptError, match=r"no business in an image archive"):
        data.load(tmp_path)
    assert capsys.readouterr().out == ""


def encoded(colour, kind):
    buffer = io.BytesIO()
    PIL_Image.new("RGB", (32, 32), colour).save(buffer, format=kind)
    return buffer.getvalue()


def jpegs(path, per_class):
    with tarfile.open(path, "w:xz") as tar:
        for part, count in per_class.items():
            for i, name in enumerate(data.CLASSES):
                content = encoded((20 * i, 100, 50), "JPEG")
                for j in range(count):
                    member = tarfile.TarInfo(f"{part}/{name}/{j:04d}.jpg")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))


def test_jpegs_are_decoded_once(tmp_path, monkeypatch):
    def decoded(files):
        train = len(list(files)) == 20
        return np.full((50_000 if train else 10_000, 3073), 0 if train else 1, np.uint8)

    monkeypatch.setattr(data, "_decoded", decoded)
    jpegs(tmp_path / data.JPEGS, {"train": 2, "test": 1})
    images = data.load(tmp_path)
    assert images.train.shape == (50_000, 32, 32, 3)
    assert images.test_labels.tolist() == [1] * 10_000
    assert images.source == data.JPEGS
    monkeypatch.setattr(data, "_decode_archive", None)
    assert data.load(tmp_path).test.shape == (10_000, 32, 32, 3)


def test_nowhere(tmp_path):
    with pytest.raises(DatasetNotFoundError, match=r"cifar-10-python.tar.gz.*PROXYPROX_DATA"):
        data.load()
