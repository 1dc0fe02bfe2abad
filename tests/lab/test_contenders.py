"""Methods with options in a line: what is read, and what is not."""

import pytest

from heavystep.lab.comparison.contenders import read, written

READ = {
    "SPS": ("SPS", ()),
    "SPS:c=0.5:max_step=null": ("SPS", (("c", 0.5), ("max_step", None))),
    "HeavyStep:diagonal=None": ("HeavyStep", (("diagonal", None),)),
    "X:a=True:b=false": ("X", (("a", True), ("b", False))),
    " SPS : c = .5 ": ("SPS", (("c", 0.5),)),
    "SHBPolyak:max_step=inf": ("SHBPolyak", (("max_step", float("inf")),)),
    "SHBPolyak:scaling=practical:momentum=0": (
        "SHBPolyak",
        (("scaling", "practical"), ("momentum", 0)),
    ),
}


@pytest.mark.parametrize(("text", "known"), READ.items(), ids=READ)
def test_what_is_read_is_written_so_that_it_is_read_again(text, known):
    assert read(text) == known
    name, options = known
    assert read(name + written(options)) == known


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SPS:", "a colon must be followed by an option, name=value"),
        ("SPS:=1", "a colon must be followed by an option, name=value"),
        ("SPS:c", "'c' must be followed by = and a number or a word"),
        ("SPS:c=1 2", "'c' must be followed by = and a number or a word"),
        ("SPS:c=1:c=2", "an option is given twice"),
    ],
)
def test_what_cannot_be_read_is_named(text, message):
    with pytest.raises(ValueError, match=message) as error:
        read(text)
    assert repr(text) in str(error.value)
