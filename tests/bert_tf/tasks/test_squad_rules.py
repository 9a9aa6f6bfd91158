r"""squad_scores.py: texts are compared as in CMRC 2018 and KorQuAD 1.0.

The golden numbers are printed by their official scripts, the first with NLTK
3.10.4 and its data punkt_tab, for the files that `write_files` makes:

    PYTHONPATH=tests:tests/bert_tf/tasks \
      python -c 'import test_squad_rules as t; t.write_files(".")'
    python cmrc2018_evaluate.py data.json predictions.json
    python evaluate-v1.0.py data.json predictions.json
"""

import json
import pathlib
import random

import planted_squad
import pytest

from bert_tf.tasks import squad, squad_scores
from tfrecords.tasks import squad_files

# Question id: answers, prediction; None for no prediction.
QUESTIONS = {
    "same": (["旧磨坊", "河边的旧磨坊"], "《旧磨坊》。"),
    "part": (["河边的旧磨坊"], "在河边的，旧"),
    "run": (["红色和蓝色"], "蓝色和红色"),  # The longest run has two.
    "words": (["iPhone 6s手机"], "IPHONE 6S"),
    "marks": (["1,500.5元(约)"], "1,500.5元"),
    "spaces": (["A B"], "ab"),
    "empty": (["，。"], "——"),
    "both empty": (["、"], ""),  # An exact match with an F1 of 0.
    "none": (["灯塔"], None),
    "ellipsis": (["灯塔"], "…灯塔"),
    "quotes": (["《등대》의 불", "등대의 불"], "‘등대’의 불"),
    "syllables": (["오래된 방앗간"], "방앗간의"),
    "order": (["가나다"], "다가나!"),
    "articles": (["The Mill"], "mill"),
    "hyphen": (["A-1"], "a1"),
    "brackets": (["(a)b"], "ab"),
}
GOLDEN = {
    "cmrc": {"exact_match": 18.75, "f1": 41.450216450216445},
    "korquad": {"exact_match": 12.5, "f1": 71.64405039405038},
}
# Runs between Chinese characters, and their words as of NLTK's word_tokenize.
WORDS = {
    "3.5 ghz, 1,000": "3.5|ghz|,|1,000",
    "v1.": "v1|.",
    "it ended. then": "it|ended|.|then",
    "st. john (j. doe)": "st.|john|(|j.|doe|)",
    "50%?!": "50|%|?|!",
    "wait... don't": "wait|...|do|n't",
    "o'neil's 'best'": "o'neil|'s|'|best|'",
    '"a" b"': '“|a|"|b|"',
    "a[1]; x@y": "a|[|1|]|;|x|@|y",
    "1990–95 a—b": "1990|–|95|a|—|b",
    "カタカナ ab": "カタカナ|ab",
}


def predictions():
    return {
        name: text for name, (_, text) in QUESTIONS.items() if text is not None
    }


def write_files(folder):
    """Writes the input files of the official scripts."""
    entries = [
        (
            " ".join(answers),
            [planted_squad.question(name, "?", " ".join(answers), *answers)],
        )
        for name, (answers, _) in QUESTIONS.items()
    ]
    data = planted_squad.article(*entries, version="KorQuAD_v1.0_dev")
    for name, content in (("data", data), ("predictions", predictions())):
        path = pathlib.Path(folder, f"{name}.json")
        path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize("rules", GOLDEN)
def test_scores_are_those_of_the_official_script(tmp_path, rules):
    write_files(tmp_path)
    version, answers = squad_scores.read_answers(str(tmp_path / "data.json"))
    scores = squad_scores.score(version, answers, predictions(), rules=rules)
    assert scores == pytest.approx(GOLDEN[rules], abs=1e-9)


@pytest.mark.parametrize("run", WORDS)
def test_words_between_chinese_characters_are_those_of_nltk(run):
    words = WORDS[run].split("|")
    assert squad_scores.split_chinese(f"中{run}文") == ["中", *words, "文"]


def chinese_units(text):
    """Returns what is compared, and its Chinese characters and words."""
    kept, units = "", [""]
    for char in text.strip().lower():
        if char in "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』":
            continue
        kept += char
        if 0x4E00 <= ord(char) <= 0x9FA5:
            units += [char, ""]
        elif char.isspace():
            units.append("")
        else:
            units[-1] += char
    return kept, [unit for unit in units if unit]


def longest_common_run(a, b):
    runs = {tuple(a[i:j]) for j in range(len(a) + 1) for i in range(j)}
    others = {tuple(b[i:j]) for j in range(len(b) + 1) for i in range(j)}
    return max(map(len, runs & others), default=0)


def korean_units(text):
    """Returns what is compared, and its characters without spaces."""
    kept = ""
    for char in text.lower():
        if char in "'\"《》<>〈〉()‘’":
            kept += " "
        elif not (char.isascii() and char.isprintable()) or (
            char.isalnum() or char == " "
        ):
            kept += char
    words = kept.split()
    return " ".join(words), sorted("".join(words))


def number_in_both(a, b):
    return sum(min(a.count(x), b.count(x)) for x in set(a))


def perturbed(rng, text, alphabet):
    for _ in range(rng.randrange(6)):
        at = rng.randrange(len(text) + 1)
        cut = at + rng.choice((0, 0, 1, 3))
        text = text[:at] + rng.choice([*alphabet, ""]) + text[cut:]
    return text


@pytest.mark.parametrize(
    ("rules", "alphabet", "units", "in_common"),
    [
        ("cmrc", "磨坊A9é 　，《-·カ", chinese_units, longest_common_run),
        ("korquad", "방앗간A9é 　'，《(-,", korean_units, number_in_both),
    ],
)
def test_perturbed_answers_score_by_the_published_rules(
    rules, alphabet, units, in_common
):
    rng = random.Random(7)
    for _ in range(300):
        base = "".join(rng.choices(alphabet, k=rng.randrange(1, 15)))
        answers = [perturbed(rng, base, alphabet) for _ in range(3)]
        predicted = perturbed(rng, base, alphabet)
        text, parts = units(predicted)
        expected = list(map(units, answers))
        f1 = max(
            2 * in_common(parts, others) / max(1, len(parts) + len(others))
            for _, others in expected
        )
        scores = squad_scores.score(
            "1.1", {"q": answers}, {"q": predicted}, rules=rules
        )
        is_exact = text in [other for other, _ in expected]
        assert scores["exact_match"] == 100 * is_exact, (answers, predicted)
        assert scores["f1"] == pytest.approx(100 * f1), (answers, predicted)


def test_the_rules_decide_threshold_and_baseline():
    data = squad_files.SquadOptions(version_2_with_negative=True, score="cmrc")
    task = squad.Squad(data)
    assert task.decisive_settings() == {"score": "cmrc"}
    task.annotated = {"dev": {"a": ["磨坊"], "b": []}}
    found = {"a": "《磨坊》", "b": "灯塔"}
    odds = {"a": -1.0, "b": 2.0}
    task._answer = {"dev": lambda _: squad.Answered(found, {}, odds)}
    assert task.score("dev", {})["f1"] == 100
    assert task.tuned_threshold == 0.5
    assert task.resampled("dev", {}).score([0]) == 100
    answers = {"a": ["《磨》"], "b": ["磨"], "c": ["《磨》"]}
    assert squad.majority_baseline(answers, False, "korquad")["f1"] == 100


def test_options_and_rules_have_the_same_names():
    for rules in squad_scores.RULES:
        assert squad_files.ScoreOptions(score=rules).score == rules
    assert squad.Squad(squad_files.SquadOptions()).decisive_settings() == {}
