import pytest

from tfrecords.io import json_files


def test_an_error_names_a_file_that_is_not_json(tmp_path):
    path = tmp_path / "state.json"
    for content in (b"{", b'{"a": "\xff"}', b"\x00"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="state.json is not JSON"):
            json_files.read(str(path))


@pytest.mark.parametrize(
    ("content", "expected", "message"),
    [
        (b"[1, 2]", dict, r"one JSON object, {...}; it holds \[1, 2\]"),
        (b"null", dict, "one JSON object, {...}; it holds None"),
        (b"{}", list, r"a JSON list, \[...\]; it holds {}"),
        (b"[" * 10_000 + b"]" * 10_000, list, "nested deeper than Python"),
        (b'{"a":' * 10_000, dict, "nested deeper than Python"),
        (b"9" * 5000, object, "is not JSON: Exceeds the limit"),
    ],
)
def test_json_of_another_kind_names_the_file(
    tmp_path, content, expected, message
):
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{path} .*{message}"):
        json_files.read(str(path), expected)
