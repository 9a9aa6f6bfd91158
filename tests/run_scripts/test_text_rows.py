"""Facts of reading lines, TSV rows and pipes."""

import os

from run_scripts import text_rows


def test_invalid_utf8_is_replaced_and_counted(tmp_path):
    path = tmp_path / "input"
    path.write_bytes(b"caf\xe9 \xff\nna\xc3\xafve \xef\xbf\xbd\n")
    with text_rows.open_lines(str(path)) as lines:
        rows = list(text_rows.read_rows(lines, []))
    assert [row.texts for row in rows] == [
        ("caf\ufffd \ufffd",),
        ("na\xefve \ufffd",),
    ]
    assert lines.num_replaced == 2  # The last one stood in the file.


def test_a_line_longer_than_a_block_is_one_line(tmp_path):
    path = tmp_path / "input"
    path.write_text("x" * 200_000 + "\nend", encoding="utf-8")
    with text_rows.open_lines(str(path)) as lines:
        assert [len(line) for line in lines] == [200_000, 3]


def test_what_has_come_is_answered_before_waiting_for_more():
    reader, writer = os.pipe()
    rows = text_rows.read_rows(text_rows.Lines(reader, "stdin"), [])
    batches = text_rows.make_batches(rows, 2)
    os.write(writer, b"one\ntwo\nthree\nfo")
    assert [row.texts[0] for row in next(batches)] == ["one", "two"]
    assert [row.texts[0] for row in next(batches)] == ["three"]
    os.write(writer, b"ur")
    os.close(writer)
    assert [row.line for row in next(batches)] == [4]
    assert next(batches, None) is None
    os.close(reader)
