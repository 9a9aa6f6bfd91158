"""What an export answers to a run's own data is what the run's files say."""

import csv
import dataclasses
import json

import planted_ner
import planted_squad
import planted_swag
import pytest

from run_scripts import (
    export_savedmodel,
    predict,
    run_glue,
    run_ner,
    run_squad,
    run_swag,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def base_flags(tmp_path, tiny_config, tiny_vocab_file):
    """Of a run that trains a little, evaluates and predicts in tmp_path."""
    path = tmp_path / "bert_config.json"
    tiny_config.to_json_file(path)
    return [
        f"--vocab_file={tiny_vocab_file}",
        f"--bert_config_file={path}",
        f"--data_dir={tmp_path}",
        f"--output_dir={tmp_path / 'run'}",
        "--max_seq_length=24",
        "--train_batch_size=8",
        "--eval_batch_size=4",
        "--learning_rate=1e-2",
        "--num_train_epochs=2",
        "--do_train",
        "--do_eval",
        "--do_predict",
    ]


@pytest.fixture
def served(tmp_path):
    """Rows, flags -> what the exported run answers to them."""

    def answer(rows, *words):
        export_savedmodel.main(
            [
                "export_savedmodel",
                f"--model_dir={tmp_path / 'run'}",
                f"--export_dir={tmp_path / 'export'}",
            ]
        )
        lines = [json.dumps(row) + "\n" for row in rows]
        (tmp_path / "rows.jsonl").write_text("".join(lines))
        predict.main(
            [
                "predict",
                f"--export_dir={tmp_path / 'export'}",
                f"--input_file={tmp_path / 'rows.jsonl'}",
                f"--output_file={tmp_path / 'answers.jsonl'}",
                "--batch_size=4",
                *words,
            ]
        )
        answers = (tmp_path / "answers.jsonl").read_text().splitlines()
        return [json.loads(line) for line in answers]

    return answer


def test_named_entities(tmp_path, base_flags, served):
    planted_ner.write(tmp_path / "eng.train", planted_ner.sentences(40))
    planted_ner.write(tmp_path / "eng.testa", planted_ner.sentences(30, 1))
    # Documents of several windows, which overlap by another number.
    run_ner.main(["run_ner", *base_flags, "--doc_stride=5"])
    documents = []
    predictions = (tmp_path / "run/predictions/dev.txt").read_text()
    for line in predictions.splitlines():
        if line.startswith("-DOCSTART-"):
            documents.append([])
        elif line:
            columns = line.split(" ")
            documents[-1].append((columns[0], columns[-1]))
    answers = served(
        [{"words": [word for word, _ in rows]} for rows in documents],
        "--signature=words",
    )
    expected = [[tag for _, tag in rows] for rows in documents]
    assert [row["tags"] for row in answers] == expected
    assert len({tag for tags in expected for tag in tags}) > 2
    assert max(map(len, expected)) > 24
    # No loss of tags reaches the pooler, and here it began from scratch.
    path = tmp_path / "export/assets.extra/model.json"
    assert json.loads(path.read_text())["untrained"] == ["encoder/pooler/"]


WORDS = "the old captain sat near a ship . the crew was not there".split()


def pairs(count):
    """Two texts of each row, whose words have others beside them."""
    turned = [WORDS[i % 7 :] + WORDS[: i % 7] for i in range(count)]
    return [
        (" ".join(row[: 3 + i % 4]), " ".join(row[i % 5 :][:5]))
        for i, row in enumerate(turned)
    ]


def write_glue(folder, names, labels, count):
    """Train, dev and test files with the columns of a GLUE task."""
    rows = [
        [str(i), *texts, labels[i % len(labels)]]
        for i, texts in enumerate(pairs(count))
    ]
    for split in ("train", "dev", "test"):
        kept = len(names) - (split == "test")
        lines = ["\t".join(row[:kept]) for row in [names, *rows]]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")


def read_glue(path):
    """The predictions of a run, in the order of the test file."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [int(row["index"]) for row in rows] == list(range(len(rows)))
    return [row["prediction"] for row in rows]


@pytest.fixture
def large_weights(tmp_path, tiny_config):
    """Flags of a model that answers differently to different texts."""
    path = tmp_path / "large.json"
    dataclasses.replace(tiny_config, initializer_range=0.5).to_json_file(path)
    return [f"--bert_config_file={path}", "--learning_rate=1e-3"]


def test_labels_of_pairs(tmp_path, base_flags, large_weights, served):
    names = ["index", "sentence1", "sentence2", "label"]
    # By the word that the first text begins with, so that it can be learnt.
    labels = 3 * ["entailment"] + 4 * ["not_entailment"]
    write_glue(tmp_path, names, labels, 30)
    run_glue.main(
        [
            "run_glue",
            "--task_name=RTE",
            *base_flags,
            *large_weights,
            "--num_train_epochs=12",
        ]
    )
    answers = served(
        [dict(zip(("text_a", "text_b"), row, strict=True)) for row in pairs(30)]
    )
    expected = read_glue(tmp_path / "run/predictions/RTE.tsv")
    assert [row["label"] for row in answers] == expected
    assert len(expected) == 30 and len(set(expected)) == 2


def test_scores_of_pairs(tmp_path, base_flags, large_weights, served):
    names = ["index", "sentence1", "sentence2", "score"]
    write_glue(tmp_path, names, ["0.5", "4.0", "2.25"], 30)
    run_glue.main(
        ["run_glue", "--task_name=STS-B", *base_flags, *large_weights]
    )
    answers = served(
        [dict(zip(("text_a", "text_b"), row, strict=True)) for row in pairs(30)]
    )
    expected = read_glue(tmp_path / "run/predictions/STS-B.tsv")
    scores = [row["score"] for row in answers]
    # The file has four digits. Both keep to the scale of the task.
    assert scores == pytest.approx(list(map(float, expected)), abs=1e-4)
    assert len(expected) == 30 and len(set(expected)) > 10


def test_multiple_choice(tmp_path, base_flags, served):
    planted_swag.write(tmp_path / "train.csv", planted_swag.rows(20))
    planted_swag.write(tmp_path / "val.csv", planted_swag.rows(6))
    cells = planted_swag.rows(9)
    for row in cells[::2]:  # So that not all answers are the same.
        row[7:11] = row[10:6:-1]
    planted_swag.write(tmp_path / "test.csv", cells)
    run_swag.main(["run_swag", *base_flags])
    with open(tmp_path / "test.csv", newline="") as file:
        rows = [
            {
                "context": row["sent1"],
                "endings": [
                    f"{row['sent2']} {row[f'ending{i}']}" for i in range(4)
                ],
            }
            for row in csv.DictReader(file)
        ]
    answers = served(rows)
    with open(tmp_path / "run/predictions/test.csv", newline="") as file:
        expected = [int(row["pred"]) for row in csv.DictReader(file)]
    assert [row["choice"] for row in answers] == expected
    assert len(expected) == 9 and len(set(expected)) > 1


def write_questions(path, version):
    """A SQuAD file with passages of several windows, some of no answer."""
    words = "the old captain sat near a ship . the crew was not there ,".split()
    paragraphs = []
    for number in range(9):
        passage = " ".join(
            words[(number + i * (number + 3)) % len(words)] for i in range(40)
        )
        answer = " ".join(passage.split(" ")[number : number + 2])
        questions = [
            planted_squad.question(
                f"{version}-{number}", f"where was {answer} ?", passage, answer
            )
        ]
        if version == "v2.0":
            questions[0]["is_impossible"] = False
            questions.append(
                planted_squad.question(
                    f"no-{number}", "the sea ?", passage, is_impossible=True
                )
            )
        paragraphs.append((passage, questions))
    content = planted_squad.article(*paragraphs, version=version)
    path.write_text(json.dumps(content), encoding="utf-8")
    return [
        {"id": qa["id"], "question": qa["question"], "context": passage}
        for passage, questions in paragraphs
        for qa in questions
    ]


@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_answers_to_questions(tmp_path, base_flags, served, version):
    write_questions(tmp_path / f"train-{version}.json", version)
    rows = write_questions(tmp_path / f"dev-{version}.json", version)
    run_squad.main(
        [
            "run_squad",
            *base_flags,
            "--doc_stride=7",
            "--max_query_length=5",
            "--max_answer_length=4",
            "--n_best_size=6",
            f"--version_2_with_negative={version == 'v2.0'}",
        ]
    )
    answers = served(rows)

    def predicted(name):
        path = tmp_path / "run/predictions" / name
        return json.loads(path.read_text(encoding="utf-8"))

    expected = predicted("predictions.json")
    assert {row["id"]: row["answer"] for row in answers} == expected
    assert len(expected) == len(rows) >= 9
    nbest = predicted("nbest_predictions.json")
    for row in answers:
        theirs = nbest[row["id"]]
        assert [x["answer"] for x in row["nbest"]] == [
            x["text"] for x in theirs
        ]
        assert [x["probability"] for x in row["nbest"]] == pytest.approx(
            [x["probability"] for x in theirs], abs=1e-5
        )
    if version == "v2.0":
        # Both happen, or the threshold would decide nothing here.
        assert 0 < sum(text == "" for text in expected.values()) < len(rows)
        odds = predicted("null_odds.json")
        assert {row["id"]: row["null_odds"] for row in answers} == (
            pytest.approx(odds, abs=1e-5)
        )
