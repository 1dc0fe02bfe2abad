"""CIFAR-10 and CIFAR-100: what a file's bytes mean, what is refused, what the real files hold."""

import tracemalloc
from io import BufferedReader

import numpy as np
import pytest

from heavystep.data import cifar, load_cifar
from heavystep.data.cifar import CIFAR, folder_of, missing_text, present
from tests.helpers import data_sets, tiny_cifar
from tests.helpers.tiny_cifar import LABEL_BYTES

NAMES = list(LABEL_BYTES)
FILES = {
    "cifar10": {
        **{f"cifar-10-batches-bin/data_batch_{i}.bin": 30_730_000 for i in range(1, 6)},
        "cifar-10-batches-bin/test_batch.bin": 30_730_000,
    },
    "cifar100": {
        "cifar-100-binary/train.bin": 153_700_000,
        "cifar-100-binary/test.bin": 30_740_000,
    },
}
URLS = {
    "cifar10": "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "cifar100": "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
}


@pytest.fixture(params=NAMES)
def tiny(request, folder, monkeypatch):
    """Name, folder and contents of a data set with a few images."""
    entry, contents = tiny_cifar.tiny(request.param)
    monkeypatch.setitem(CIFAR, request.param, entry)
    tiny_cifar.write(folder_of(entry), contents)
    return request.param, folder_of(entry), contents


def first(contents):
    return next(iter(contents))


def test_the_catalogue_is_what_was_published():
    assert list(CIFAR) == NAMES
    hashes = set()
    for name, entry in CIFAR.items():
        sizes = {f"{entry.folder}/{file.name}": entry.file_bytes(file) for file in entry.files}
        assert (entry.name, sizes, entry.url) == (name, FILES[name], URLS[name])
        assert (entry.n, entry.dim, entry.entries) == (60_000, 3072, 184_320_000)
        assert sum(file.images for file in entry.test) == 10_000
        hashes |= {file.sha256 for file in entry.files}
    assert len(hashes) == 8
    assert all(len(bytes.fromhex(sha256)) == 32 for sha256 in hashes)


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_every_byte_is_where_the_layout_says(tiny, monkeypatch, at_once, verify):
    name, _, contents = tiny
    monkeypatch.setattr(cifar, "RECORDS", at_once)
    labels_of = LABEL_BYTES[name]
    data = load_cifar(name, verify=verify)
    files = list(contents.values())
    for part, blob in ((data.train, b"".join(files[:-1])), (data.test, files[-1])):
        n = len(blob) // (labels_of + 3072)
        assert (part.images.dtype, part.images.shape) == (np.uint8, (n, 3, 32, 32))
        assert (part.labels.dtype, part.labels.shape) == (np.int64, (n,))
        for array in part:
            assert array.flags.c_contiguous
            assert array.flags.owndata
            assert array.flags.writeable
        for i in range(n):
            begin = i * (labels_of + 3072)
            assert part.labels[i] == blob[begin + labels_of - 1]
            planes = blob[begin + labels_of : begin + labels_of + 3072]
            assert part.images[i].tobytes() == planes


def test_planes_are_red_green_blue_row_by_row(folder, monkeypatch):
    entry, contents = tiny_cifar.tiny("cifar100")
    red, green, blue = bytearray(1024), bytearray(1024), bytearray(1024)
    red[32 * 5 + 7], green[32 * 6 + 8], blue[32 * 9 + 31] = 11, 22, 33
    contents["test.bin"] = bytes([4, 97]) + red + green + blue
    monkeypatch.setitem(CIFAR, "cifar100", tiny_cifar.knowing(entry, contents))
    tiny_cifar.write(folder_of(entry), contents)
    images, labels = load_cifar("cifar100").test
    assert labels.tolist() == [97]  # the fine one, not the coarse 4
    assert np.argwhere(images).tolist() == [[0, 0, 5, 7], [0, 1, 6, 8], [0, 2, 9, 31]]
    assert images[images > 0].tolist() == [11, 22, 33]


def test_images_are_held_once(folder, monkeypatch):
    entry, contents = tiny_cifar.sized("cifar100", [12_000, 1])
    monkeypatch.setitem(CIFAR, "cifar100", entry)
    tiny_cifar.write(folder_of(entry), contents)
    tracemalloc.start()
    try:
        data = load_cifar("cifar100")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    arrays = sum(array.nbytes for part in data for array in part)
    assert peak < arrays + 1.5 * cifar.RECORDS * 3074


DAMAGE = {
    "truncated": (lambda content: content[:-1], r"(\d+) bytes, not (\d+)$"),
    "overlong": (lambda content: content + b"\0", r"(\d+) bytes, not (\d+)$"),
    "empty": (lambda content: b"", r"0 bytes, not (\d+)$"),
    "a pixel": (
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        r"its sha256 is [0-9a-f]{12}\.\.\., not [0-9a-f]{12}\.\.\.$",
    ),
}


@pytest.mark.parametrize("at", [0, -1], ids=["train", "test"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_in_one_line(tiny, damage, at):
    name, place, contents = tiny
    file = list(contents)[at]
    change, message = DAMAGE[damage]
    (place / file).write_bytes(change(contents[file]))
    with pytest.raises(ValueError, match=message) as caught:
        load_cifar(name)
    text = str(caught.value)
    assert text.startswith(f"{place / file} is not the published {name}: ")
    assert len(text.splitlines()) == 1
    if "bytes" in text:
        found, expected = len(change(contents[file])), len(contents[file])
        assert text.endswith(f": {found} bytes, not {expected}")


def test_without_verify_the_hash_does_not_count_but_the_size_does(tiny):
    name, place, contents = tiny
    file, content = first(contents), contents[first(contents)]
    (place / file).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert load_cifar(name, verify=False).train.images.any()
    (place / file).write_bytes(content[:-1])
    with pytest.raises(ValueError, match=f"{len(content) - 1} bytes, not {len(content)}"):
        load_cifar(name, verify=False)


@pytest.mark.parametrize("verify", [True, False])
def test_a_file_that_shrinks_while_it_is_read(tiny, monkeypatch, verify):
    name, place, contents = tiny
    size = len(contents[first(contents)])

    class Shrinking(BufferedReader):
        def readinto(self, buffer):
            return super().readinto(buffer) - 1

    opened = type(place).open
    monkeypatch.setattr(type(place), "open", lambda *args: Shrinking(opened(*args).detach()))
    with pytest.raises(ValueError, match=f"{size - 1} bytes, not {size}"):
        load_cifar(name, verify=verify)


@pytest.mark.parametrize("verify", [True, False])
def test_a_label_out_of_range_is_refused(tiny, monkeypatch, verify):
    name, place, contents = tiny
    file = list(contents)[-2]  # the last one for training
    classes, record = tiny_cifar.CLASSES[name], LABEL_BYTES[name] + 3072
    for label, allowed in ((classes - 1, True), (classes, False), (255, False)):
        content = bytearray(contents[file])
        content[record + LABEL_BYTES[name] - 1] = label
        changed = {**contents, file: bytes(content)}
        monkeypatch.setitem(CIFAR, name, tiny_cifar.knowing(CIFAR[name], changed))
        tiny_cifar.write(place, changed)
        if allowed:
            assert classes - 1 in load_cifar(name, verify=verify).train.labels
            continue
        with pytest.raises(ValueError, match=rf"label {label} of image 2, not in 0\.\.") as caught:
            load_cifar(name, verify=verify)
        assert str(caught.value).startswith(f"{place / file} is not the published {name}: ")


def test_any_coarse_label_goes(folder, monkeypatch):
    entry, contents = tiny_cifar.tiny("cifar100")
    contents["test.bin"] = b"\xff" + contents["test.bin"][1:]
    monkeypatch.setitem(CIFAR, "cifar100", tiny_cifar.knowing(entry, contents))
    tiny_cifar.write(folder_of(entry), contents)
    assert load_cifar("cifar100").test.labels.max() < 100


@pytest.mark.parametrize("name", NAMES)
def test_missing_data_says_what_to_do(folder, name):
    with pytest.raises(FileNotFoundError) as caught:
        load_cifar(name)
    assert caught.value.filename == name
    text = caught.value.strerror
    assert text == missing_text([name])
    assert len(text.splitlines()) == 1
    parts = [path.rpartition("/")[2] for path in FILES[name]]
    for part in [*parts, str(folder.parent / CIFAR[name].folder), f"heavystep data fetch {name}",
                 URLS[name], f"in {folder.parent}", "HEAVYSTEP_DATA"]:  # fmt: skip
        assert part in text
    both = missing_text(NAMES)
    assert len(both.splitlines()) == 1
    assert "heavystep data fetch cifar10 cifar100" in both


def test_one_missing_file_is_named(tiny):
    name, place, contents = tiny
    assert missing_text([name]) == ""
    assert present(NAMES) == {name: place}
    gone = list(contents)[-1]
    (place / gone).unlink()
    for _ in range(2):
        assert present(NAMES) == {}
        with pytest.raises(FileNotFoundError) as caught:
            load_cifar(name)
        assert caught.value.strerror.startswith(f"no {gone} in {place}: ")
        (place / gone).mkdir(exist_ok=True)  # a folder is no file


@pytest.mark.parametrize("name", ["cifar", "CIFAR10", "a9a", "../cifar10"])
def test_an_unknown_name_is_refused(name):
    for call in (load_cifar, cifar.image_set, lambda name: present([name])):
        with pytest.raises(ValueError, match="data set must be one of 'cifar10', 'cifar100', got"):
            call(name)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The data folder with the published files."""
    return data_sets.published_images(tmp_path_factory.mktemp("images"))


# The first labels and the mean of each colour are those that others report.
REAL = {
    "cifar10": (10, [6, 9, 9, 4, 1], [3, 8, 8, 0, 6], [0.4914, 0.4822, 0.4465]),
    "cifar100": (100, [19, 29, 0, 11, 1], [49, 33, 72, 51, 71], [0.5071, 0.4865, 0.4409]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_real_files(real, monkeypatch, name):
    monkeypatch.setenv("HEAVYSTEP_DATA", str(real))
    sizes = {path: (real / path).stat().st_size for path in FILES[name]}
    assert sizes == FILES[name]
    train, test = load_cifar(name)  # compares the sha256 of each file
    classes, first_train, first_test, means = REAL[name]
    assert np.bincount(train.labels).tolist() == [50_000 // classes] * classes
    assert np.bincount(test.labels).tolist() == [10_000 // classes] * classes
    assert train.labels[:5].tolist() == first_train
    assert test.labels[:5].tolist() == first_test
    np.testing.assert_allclose(train.images.mean((0, 2, 3)) / 255, means, atol=6e-5)


@pytest.mark.slow
def test_the_first_real_image(real, monkeypatch):
    monkeypatch.setenv("HEAVYSTEP_DATA", str(real))
    frog = load_cifar("cifar10").train.images[0]
    assert frog[:, 0, 0].tolist() == [59, 62, 63]
    assert frog[:, 0, 1].tolist() == [43, 46, 45]
