"""Whether rows are valid is said as Arrow says it, only faster."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from holons.streams.segments.validation import validate

TEXTS = ["", "a", None, "some text", "much longer text than the others, of ASCII", "Köln", "z" * 40]


def is_valid(check, rows: pa.RecordBatch) -> bool:
    try:
        check(rows)
    except pa.ArrowInvalid:
        return False
    return True


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_it_says_what_arrow_says_of_damaged_texts(kind, ascii_only):
    random, said = Random(5), set()
    texts = [text for text in TEXTS if not ascii_only or text is None or text.isascii()]
    size = 8 if kind == pa.large_string() else 4
    for _ in range(2_000):
        column = pa.array(random.choices(texts, k=random.randrange(0, 9)), kind)
        validity, offsets, data = (None if one is None else bytearray(one) for one in column.buffers())
        for _ in range(random.randrange(3)):
            if random.random() < 0.5 and offsets:
                at = random.randrange(0, len(column) + 1) * size
                offsets[at : at + size] = random.choice((-1, 0, 1, 3, 50, 2**30)).to_bytes(size, "little", signed=True)
            elif data:
                data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        buffers = [None if one is None else pa.py_buffer(bytes(one)) for one in (validity, offsets, data)]
        try:
            damaged = pa.Array.from_buffers(kind, len(column), buffers, column.null_count)
            rows = pa.RecordBatch.from_arrays([damaged.slice(random.randrange(2))], ["text"])
        except pa.ArrowInvalid:  # cheap to see, so it is seen at once
            continue
        valid = is_valid(lambda known: known.validate(full=True), rows)
        assert is_valid(validate, rows) == valid
        said.add(valid)
    assert said == {True, False}
