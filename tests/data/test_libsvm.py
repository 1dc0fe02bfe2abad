"""The LIBSVM reader: good and bad lines, fuzzing against a literal parser, packed files."""

import bz2
import gzip
import io
import lzma
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heavystep.data import Labelled, binary_labels, libsvm, read_libsvm
from heavystep.data.compressed import text_blocks
from heavystep.data.libsvm import fast_rows, parse, slow_rows
from tests.helpers.data_sets import assert_same, bits
from tests.helpers.examples import examples

BOM = b"\xef\xbb\xbf"
PACKERS = {"plain": bytes, "bz2": bz2.compress, "xz": lzma.compress, "gz": gzip.compress}


def as_lists(data):
    """[(label, {index from 1: value})]"""
    begins = data.rows.indptr
    rows = []
    for row, label in enumerate(data.labels.tolist()):
        part = slice(begins[row], begins[row + 1])
        columns = (data.rows.indices[part] + 1).tolist()
        rows.append((label, dict(zip(columns, data.rows.values[part].tolist(), strict=True))))
    return rows


GOOD = [
    (b"1 1:2\n", [(1.0, {1: 2.0})]),
    (b"1 1:2", [(1.0, {1: 2.0})]),
    (b"+1 1:+2 3:-.5 4:5. 5:1e-3 6:2E+1\n", [(1.0, {1: 2.0, 3: -0.5, 4: 5.0, 5: 1e-3, 6: 20.0})]),
    (b"-1\n", [(-1.0, {})]),
    (b"0\n1 2:0\n", [(0.0, {}), (1.0, {2: 0.0})]),
    (b"  1\t1:2 \t 2:3\t \r\n2 1:1\r\n", [(1.0, {1: 2.0, 2: 3.0}), (2.0, {1: 1.0})]),
    (b"# head\n\n \t\n\r\n1 1:2 # rest 3:4\n1#\n#", [(1.0, {1: 2.0}), (1.0, {})]),
    (b"1 1:2 # \xff\xfe qid:3 \r here\n", [(1.0, {1: 2.0})]),
    (BOM + b"1 1:2\n", [(1.0, {1: 2.0})]),
    (BOM + b"# only a comment\n1\n", [(1.0, {})]),
    (b"1 007:2 2147483646:1\n", [(1.0, {7: 2.0, 2147483646: 1.0})]),
    (b"1 1:1e-999 2:4.9e-324\n", [(1.0, {1: 0.0, 2: 5e-324})]),
    (b"1.5 1:9007199254740993\n", [(1.5, {1: 9007199254740992.0})]),
]


@pytest.mark.parametrize(("text", "rows"), GOOD)
def test_good_text(text, rows):
    data = parse([text], "a.txt")
    assert as_lists(data) == rows
    assert data.rows.dim == max((index for _, row in rows for index in row), default=0)
    for cut in range(len(text)):  # blocks may end anywhere
        assert_same(parse([text[:cut], text[cut:]], "a.txt"), data)
    assert_same(parse([text[i : i + 1] for i in range(len(text))], "a.txt"), data)


def test_a_negative_zero_stays_one():
    assert math.copysign(1.0, parse([b"1 1:-0"], "a").rows.values[0]) == -1.0


BAD = [
    (b"1 5:1 3:1", "index 3 after 5; indices must ascend"),
    (b"1 2:1 2:1", "index 2 after 2; indices must ascend"),
    (b"1 0:1", "index 0; indices start at 1"),
    (b"1 000:1", "index 0; indices start at 1"),
    (b"1 -1:1", "index '-1' is not a whole number"),
    (b"1 +1:1", "index '+1' is not a whole number"),
    (b"1 1.0:1", "index '1.0' is not a whole number"),
    (b"1 :1", "index '' is not a whole number"),
    (b"1 qid:3 1:2", "index 'qid' is not a whole number"),
    (b"1 2147483647:1", "index '2147483647'; the largest index possible is 2147483646"),
    (
        b"1 " + b"9" * 5000 + b":1",
        f"index '{'9' * 30}'...; the largest index possible is 2147483646",
    ),
    (b"1 1:nan", "value 'nan' is not a finite number"),
    (b"1 1:-inf", "value '-inf' is not a finite number"),
    (b"1 1:1e999", "value '1e999' is not a finite number"),
    (b"1 1:0x10", "value '0x10' is not a finite number"),
    (b"1 1:1_0", "value '1_0' is not a finite number"),
    (b"1 1:1,5", "value '1,5' is not a finite number"),
    (b"1 1:", "value '' is not a finite number"),
    (b"1 1: 2", "value '' is not a finite number"),
    (b"1 1:2:3", "value '2:3' is not a finite number"),
    (b"1 1:2\r 2:3", r"value '2\r' is not a finite number"),
    (b"1 1:2\r# comment", r"value '2\r' is not a finite number"),
    (b"1 1:2\x0b2:3", r"value '2\x0b2:3' is not a finite number"),
    (b"1 1:2\x00", r"value '2\x00' is not a finite number"),
    ("1 1:٣".encode(), r"value '\xd9\xa3' is not a finite number"),
    (b"1 1 2:3", "'1' is not index:value"),
    (b"1 2 " + b"x" * 5000, "'2' is not index:value"),
    (b"1 1:" + b"x" * 31, f"value '{'x' * 30}'... is not a finite number"),
    (b"1 :", "index '' is not a whole number"),
    (b"1:2 3:4", "label '1:2' is not a finite number"),
    (b"nan 1:2", "label 'nan' is not a finite number"),
    (b"1e400", "label '1e400' is not a finite number"),
    (b"spam", "label 'spam' is not a finite number"),
    (b"\r\r", r"label '\r' is not a finite number"),
    (BOM, r"label '\xef\xbb\xbf' is not a finite number"),
    (b"\xff\xfe1\x00", r"label '\xff\xfe1\x00' is not a finite number"),
]


@pytest.mark.parametrize(("line", "wrong"), BAD)
def test_bad_line(line, wrong):
    text = b"1 1:2\n# comment\n\n" + line + b"\n1 1:3\n"
    with pytest.raises(ValueError, match=r"a\.txt, line 4") as caught:
        parse([text], "a.txt")
    assert str(caught.value) == f"a.txt, line 4: {wrong}"
    with pytest.raises(ValueError, match=r"a\.txt, line 4") as again:
        parse([text[i : i + 1] for i in range(len(text))], "a.txt")
    assert str(again.value) == str(caught.value)


@pytest.mark.parametrize("text", [b"", b"\n", b"# nothing\n \n", BOM])
def test_a_file_without_a_row(text):
    with pytest.raises(ValueError, match=r"^a\.txt: there is no row in this file$"):
        parse([text], "a.txt")


def test_columns_of_the_training_file():
    text = [b"1 2:1\n1 4:1\n"]
    assert parse(text, "a", dim=9).rows.dim == 9
    assert parse(text, "a", dim=4).rows.dim == 4
    with pytest.raises(ValueError, match=r"^a, line 2: index 4; there are 3 columns$"):
        parse(text, "a", dim=3)
    with pytest.raises(TypeError, match=r"dim must be an int >= 0, got 3\.0"):
        parse(text, "a", dim=3.0)
    with pytest.raises(ValueError, match=r"dim must be >= 0, got -1"):
        parse(text, "a", dim=-1)


def test_a_line_cannot_fill_the_memory(monkeypatch):
    monkeypatch.setattr(libsvm, "LONGEST_LINE", 100)
    with pytest.raises(ValueError, match=r"^a, line 3: longer than 100 bytes$"):
        parse([b"1\n2\n", *[b"0" * 60] * 1000], "a")
    assert parse([b"1 ", *[b"1:2\n1 "] * 100], "a").rows.n == 101  # long in all, short in each


def test_a_long_line_takes_the_slow_way_to_the_same_rows(monkeypatch):
    text = b"1 1:2 3:4\n2 2:0.1 7:1e5\n"
    data = parse([text], "a")
    monkeypatch.setattr(libsvm, "LONG_LINE", 3)
    assert fast_rows(text.split(), None) is None
    assert_same(parse([text], "a"), data)


def literal(text, dim=None):
    """The format once more, in the plainest way; None where it is malformed or empty."""
    rows = []
    for line in text.removeprefix(BOM).split(b"\n"):
        line = line[:-1] if line.endswith(b"\r") else line
        words = [word for word in line.split(b"#")[0].replace(b"\t", b" ").split(b" ") if word]
        if not words:
            continue
        entries, last = {}, 0
        for word in words[1:]:
            parts = word.split(b":")
            if len(parts) != 2 or not parts[0] or set(parts[0]) - set(b"0123456789"):
                return None
            index, value = int(parts[0]), literal_number(parts[1])
            if not last < index <= (2**31 - 2 if dim is None else dim) or value is None:
                return None
            entries[index], last = value, index
        label = literal_number(words[0])
        if label is None:
            return None
        rows.append((label, entries))
    return rows or None


def literal_number(word):
    if set(word) - set(b"0123456789+-.eE"):
        return None
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def outcome(texts, dim=None):
    """What is read and '', or None and the message; any other exception is a failure."""
    try:
        return parse(texts, "a", dim), ""
    except ValueError as error:
        return None, str(error)


def same_numbers(one, other):
    flat = [[x for label, row in rows for x in (label, *row.values())] for rows in (one, other)]
    keys = [[tuple(row) for _, row in rows] for rows in (one, other)]
    return keys[0] == keys[1] and np.array(flat[0]).tobytes() == np.array(flat[1]).tobytes()


FRAGMENTS = st.sampled_from(
    [b"1", b"0", b"-", b"+", b".", b"e", b"E5", b":", b" ", b"\t", b"\n", b"\r", b"\r\n", b"#",
     b" 1:2", b" 3:4", b" 7:1e2", b"\n-1 1:.5", b"nan", b"inf", b"_", b"\x0b", b"\x00", b"\xff", BOM,
     b"qid:1", b"1e999", b"2147483647", b"99999999999999999999", b"\xd9\xa3"]
)  # fmt: skip
SEED = b"+1 1:0.5 3:-2e3 10:1\n-1\n# note\n2 2:1.25 4:0 # more\r\n\n0 1:7\n"


@st.composite
def mutated(draw):
    text = SEED
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        drop = draw(st.integers(0, 3))
        text = text[:at] + draw(FRAGMENTS) + text[at + drop :]
    return text


TEXTS = st.one_of(mutated(), st.lists(FRAGMENTS, max_size=12).map(b"".join), st.binary(max_size=60))


@examples(1500)
@given(TEXTS, st.integers(1, 40), st.sampled_from([None, 5]))
def test_any_bytes_give_the_literal_rows_or_a_value_error(text, size, dim):
    expected = literal(text, dim)
    cut = [text[i : i + size] for i in range(0, len(text), size)]
    data, message = outcome(cut, dim)
    if expected is None:
        assert data is None
        assert len(message.splitlines()) == 1
        assert message.isascii()
    else:
        assert data is not None, message
        assert same_numbers(as_lists(data), expected)


@examples(500)
@given(TEXTS)
def test_the_fast_way_never_differs_from_the_slow_one(text):
    lines = [line for line in text.split(b"\n") if line.strip(b" \t")]
    fast = fast_rows(lines, None)
    try:
        slow = slow_rows(lines, 1, "a", None)
    except ValueError:
        assert fast is None
    else:
        assert fast is not None  # else every good file would be read slowly
        assert list(map(bits, fast)) == list(map(bits, slow))


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
ROWS = st.lists(
    st.tuples(FLOATS, st.dictionaries(st.integers(1, 50), FLOATS, max_size=6)), min_size=1
)


@examples(300)
@given(ROWS, st.data())
def test_round_trip_in_any_dressing(rows, data):
    def choose(*options):
        return data.draw(st.sampled_from(options))

    rows = [(label, dict(sorted(row.items()))) for label, row in rows]
    end, blank, plus = choose(b"\n", b"\r\n"), choose(b" ", b"\t", b" \t "), choose("", "+")

    def text_of(value):
        text = repr(value)
        return (text if text.startswith("-") else plus + text).encode()

    lines = [choose(b"", b"# a comment: 1", blank)]
    for label, row in rows:
        words = [text_of(label), *(b"%d:" % index + text_of(value) for index, value in row.items())]
        lines.append(choose(b"", blank) + blank.join(words) + choose(b"", blank, b" # 9:9", b"#"))
        lines += choose([], [b""], [b"#"])
    text = choose(b"", BOM) + end.join(lines) + choose(b"", end)
    packed = PACKERS[choose(*PACKERS)](text)
    got = as_lists(parse(text_blocks(io.BytesIO(packed), "a"), "a"))
    assert same_numbers(got, rows)


TEXT = b"".join(b"%d %d:0.%d 90:7\n" % (i % 2, i % 80 + 1, i) for i in range(5000))


@pytest.mark.parametrize("packer", PACKERS)
def test_the_first_bytes_decide_not_the_name(packer, tmp_path):
    expected = parse([TEXT], "a")
    for name in ("a", "a.bz2", "a.xz", "a.txt"):
        (tmp_path / name).write_bytes(PACKERS[packer](TEXT))
        assert_same(read_libsvm(tmp_path / name), expected)
        assert_same(read_libsvm(str(tmp_path / name)), expected)


def test_several_packed_parts_one_after_another(tmp_path):
    path = tmp_path / "a.gz"
    for pack in (bz2.compress, lzma.compress, gzip.compress):
        path.write_bytes(pack(TEXT) + pack(b"3 1:1\n"))
        assert read_libsvm(path).labels[-1] == 3.0


@pytest.mark.parametrize(
    ("pack", "kind"), [(bz2.compress, "bzip2"), (lzma.compress, "xz"), (gzip.compress, "gzip")]
)
def test_streams_one_after_another(pack, kind, tmp_path):
    """All of them, or an error: never the first one only."""
    path, first, second = tmp_path / "a.txt", pack(b"1 1:1\n" * 500), pack(b"-1 2:1\n" * 500)
    path.write_bytes(first + second)
    assert read_libsvm(path).rows.n == 1000
    for position in (0, 1, len(second) // 2):
        damaged = bytearray(first + second)
        damaged[len(first) + position] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"this {kind} file is"):
            read_libsvm(path)
    for junk in (b"x", b"1 1:1\n", first[:3]):
        path.write_bytes(first + junk)
        with pytest.raises(ValueError, match=f"this {kind} file is"):
            read_libsvm(path)
    path.write_bytes(first + bytes(8))
    assert read_libsvm(path).rows.n == 500


@pytest.mark.parametrize(("packer", "kind"), [("bz2", "bzip2"), ("xz", "xz"), ("gz", "gzip")])
def test_damaged_and_cut_off_packed_files(packer, kind, tmp_path):
    path, packed = tmp_path / "a.txt", PACKERS[packer](TEXT)
    for length in (len(packed) - 1, len(packed) // 2, 8):
        path.write_bytes(packed[:length])
        with pytest.raises(ValueError, match=f"a.txt: this {kind} file is cut off"):
            read_libsvm(path)
    wrong = bytearray(packed)
    wrong[len(packed) // 2] ^= 0x55
    path.write_bytes(wrong)
    with pytest.raises(ValueError, match=f"a.txt: this {kind} file is damaged"):
        read_libsvm(path)


@examples(300)
@given(
    st.sampled_from(["bz2", "xz", "gz"]),
    st.integers(0),
    st.binary(min_size=1, max_size=4),
    st.booleans(),
)
def test_any_damage_to_a_packed_file_is_told(packer, place, junk, cut):
    packed = PACKERS[packer](SEED)
    at = 6 + place % (len(packed) - 6)  # without its first bytes it is a plain text
    broken = packed[:at] + junk + (b"" if cut else packed[at + len(junk) :])
    data, message = outcome(text_blocks(io.BytesIO(broken), "a"))
    if data is None:
        assert len(message.splitlines()) == 1
    else:  # a time stamp, or nothing, was changed
        assert same_numbers(as_lists(data), literal(SEED))


def test_what_cannot_be_opened_is_named(tmp_path):
    for path, error in ((tmp_path, IsADirectoryError), (tmp_path / "no", FileNotFoundError)):
        with pytest.raises(error) as caught:
            read_libsvm(path)
        assert caught.value.filename == str(path) or caught.value.filename == path
        assert caught.value.strerror


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([-1, 1, -1], [-1, 1, -1]), ([0, 1], [-1, 1]), ([2, 1, 2], [1, -1, 1]), ([7, -3.5], [1, -1])],
)
def test_the_larger_label_is_plus_one(labels, expected):
    got = binary_labels(np.array(labels, dtype=float))
    assert got.dtype == np.float64
    assert got.tolist() == expected


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ([1, 1], "got 1: 1"),
        ([3, 1, 2.5], "got 3: 1, 2.5, 3"),
        ([], "got 0: -"),
        (range(9), "got 9: 0, 1, 2, 3, 4, ..."),
    ],
)
def test_other_numbers_of_labels_are_refused(labels, found):
    with pytest.raises(ValueError, match="labels must have exactly two values") as caught:
        binary_labels(np.array(labels, dtype=float))
    assert str(caught.value).endswith(found)


def test_a_data_set_can_be_taken_apart():
    rows, labels = Labelled(*parse([b"1 1:2"], "a"))
    assert rows.n == len(labels) == 1
