"""Pictures in docs/figures are of the code of today."""

import pytest

from docs import pictures


def test_no_picture_is_older_than_its_code():
    pictures.check()
    found = {path.name for path in pictures.FOLDER.glob("*.*g")}
    # Results, whose commands are gone.
    assert found - set(pictures.SOURCES) == {
        "small_budget.png",
        "small_budget_deep.png",
    }


def test_a_changed_word_makes_a_picture_old_and_a_comment_does_not(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(pictures, "ROOT", tmp_path)
    monkeypatch.setattr(pictures, "DIGESTS", tmp_path / "digests.json")
    monkeypatch.setattr(pictures, "SOURCES", {"a.png": ["a.py"]})
    path = tmp_path / "a.py"
    path.write_text("def title():\n    return 'Score'\n")
    pictures.note("a.png")
    path.write_text(
        '"""Model -> page."""\n'
        'def title():\n    """Names it."""\n    return "Score"  # A word.\n'
    )
    pictures.check()
    path.write_text("def title():\n    return 'Scores'\n")
    with pytest.raises(ValueError, match=r"has a\.png of earlier code\. Draw"):
        pictures.check()
