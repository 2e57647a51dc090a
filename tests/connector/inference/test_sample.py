"""What bytes look like."""

from __future__ import annotations

import pytest

from penstock.connector.inference.sample import Shape, shape_of, shapes_of


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (b'{"a": 1}', Shape.JSON),
        (b"[1, 2]", Shape.JSON),
        (b"12", Shape.TEXT),
        (b'{"a": NaN}', Shape.TEXT),
        (b"hello", Shape.TEXT),
        (b"\0\0\0\0\7\2abc", Shape.FRAMED),
        (b"\xff\xfe\0", Shape.BYTES),
        (b"\x01\x02", Shape.BYTES),
    ],
)
def test_one_value_has_a_shape(value, shape):
    """A number or word alone is a text as well as JSON."""
    assert shape_of(value) is shape


def test_texts_with_the_same_number_of_delimiters_are_delimited():
    """The shares are told, the largest first."""
    found = shapes_of([b"1,a,x", b"2,b,y", b"3,c,z", b'{"a": 1}'])

    assert found.share(Shape.DELIMITED) == 0.75
    assert found.text.startswith("75% delimited text")
