"""The tasks, one a row: flags of their data, answers, wrong data."""

import csv
import functools
import importlib
import json
import math
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import NamedTuple

import planted_data
import planted_ner
import planted_ranking
import planted_squad
import planted_swag
import pytest
import run_processes

from bert_tf.tasks import ner_scores as scores_of_tags
from bert_tf.tasks import squad_scores as scores_of_answers
from tfrecords.io import json_files

MODEL = [
    f"--vocab_file={run_processes.VOCAB_FILE}",
    "--bert_config_file={data}/bert_config.json",
]
# Four steps, evaluated at 2 and 4.
TRAINING = [
    *["--train_batch_size=4", "--eval_batch_size=4", "--learning_rate=1e-3"],
    *["--save_checkpoints_steps=2", "--log_every_steps=1"],
]


SETS = ("train", "dev")


class Task(NamedTuple):
    """A task and how its commands are called; `{data}` is the data's folder.

    Attributes:
      name: of the row.
      script: the trainer.
      data: flags of the data, for both scripts.
      task: in model.json.
      schema: of the training records.
      best_metric: by which the best model is chosen.
      metrics: of dev in eval_results.json.
      wrong: file of the data, its old and its new text, and the message.
      make: the script that makes records, if one does.
      windows: flags of both scripts that a model remembers.
      training: flags of training alone.
      asked: folder of the data -> rows of `predict`.
      check: answers to these rows, folder of predicted files -> raises.
      scores: folders of the data and of predicted files of dev -> scores.
      words: flags of `predict`.
      labels: in model.json.
      sets: folders of records.
      untrained: prefixes of weights that no loss reaches, in model.json.
    """

    name: str
    script: str
    data: list[str]
    task: str
    schema: str
    best_metric: str
    metrics: tuple[str, ...]
    wrong: tuple[str, str, str, str]
    make: str | None
    windows: list[str]
    training: list[str]
    asked: Callable[[pathlib.Path], list[dict]] = lambda data: []
    check: Callable[[list[dict], pathlib.Path], None] | None = None
    scores: Callable[[pathlib.Path, pathlib.Path], dict] | None = None
    words: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    sets: tuple[str, ...] = ("train", "dev", "test")
    untrained: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def is_fine_tuning(self) -> bool:
        return self.script != "run_pretraining"

    @property
    def goals(self) -> list[str]:
        """Returns what the script can do with a trained model."""
        if not self.is_fine_tuning:
            return ["--nodo_train"]
        return ["--do_eval", "--do_predict"] if self.check else ["--do_eval"]

    def score(self, row: Mapping[str, float]) -> float:
        """Returns the best metric of a line of the log."""
        if self.is_fine_tuning:
            return row[self.best_metric]
        return -math.log(row["perplexity"])

    def run(self, data: pathlib.Path, output: pathlib.Path, *words) -> None:
        """Trains, evaluates and predicts; `words` are appended."""
        goals = ["--do_train", "--do_eval", "--do_predict"]
        goals = goals if self.check else goals[:-1]
        flags = [*self.data, *self.windows, *MODEL, *goals, *TRAINING]
        self.call(self.script, data, output, *flags, *self.training, *words)

    def call(self, script, data, output, *words) -> None:
        """Runs a script with these flags and no others."""
        module = importlib.import_module(f"run_scripts.{script}")
        flags = [word.replace("{data}", str(data)) for word in words]
        module.main([script, *flags, f"--output_dir={output}"])


def write(folder: pathlib.Path, records: pathlib.Path) -> None:
    """Writes the data of all rows, and a config of one layer."""
    planted_data.write_glue(folder)
    write_squad(folder / "squad")
    planted_data.write_swag(folder / "swag")
    # Two endings instead of four.
    planted_swag.write(
        folder / "swag/test.csv",
        planted_swag.rows(5, 2, is_labelled=False),
        planted_swag.header(2, is_labelled=False),
    )
    planted_data.write_conll(folder / "conll2003")
    planted_ner.write(
        folder / "conll2003/eng.testb", planted_ner.sentences(9, 2), False
    )
    shutil.copytree(records, folder / "records")
    lines = planted_data.sentences()
    table = [("first", "second", "y")]
    for i in range(12):
        row = (lines[i], lines[-i - 1], ("bad", "good", "so so")[i % 3])
        table.append(row)
    with open(folder / "own.csv", "w", newline="") as file:
        csv.writer(file).writerows(table)
    planted_ranking.write(folder / "ranking.csv", planted_ranking.rows(5, 3))
    with open(folder / "labels.jsonl", "w") as file:
        for i, found in enumerate([["sea"], ["sea", "crew"], []] * 4):
            text = " ".join([lines[i], "the sea"] if "sea" in found else [])
            row = {"id": f"row {i}", "text": text or lines[i], "found": found}
            file.write(json.dumps(row) + "\n")
    run_processes.write_config(folder)
    config = json_files.read(folder / "bert_config.json")
    # Answers differ from row to row.
    config["initializer_range"] = 0.5
    (folder / "bert_config.json").write_text(json.dumps(config))


def write_squad(folder: pathlib.Path) -> None:
    """Writes passages of several windows; in 2.0 half have no answer."""
    folder.mkdir()
    words = "the old captain sat near a ship . the crew was not there ,".split()
    for version in ("1.1", "2.0"):
        paragraphs = []
        for number in range(3):
            text = " ".join(
                words[(number + i * (number + 3)) % len(words)]
                for i in range(30)
            )
            answer = " ".join(text.split(" ")[number : number + 2])
            known = {"is_impossible": False} if version == "2.0" else {}
            asked = f"where was {answer} ?"
            name = f"{number} a"
            questions = [
                planted_squad.question(name, asked, text, answer, **known)
            ]
            if known:
                known = {"is_impossible": True}
                name = f"{number} b"
                questions.append(
                    planted_squad.question(name, "the sea ?", text, **known)
                )
            paragraphs.append((text, questions))
        content = planted_squad.article(*paragraphs, version=version)
        for split in ("train", "dev"):
            path = folder / f"{split}-v{version}.json"
            path.write_text(json.dumps(content))


def digests(folder: pathlib.Path, *but: str) -> Mapping[str, bytes]:
    """Returns path -> content, without those that name times and folders."""
    but = ("run.flags", "run.lock", "events.*", "*.lengths", *but)
    but += ("report.html", "sessions.jsonl")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(path.match(name) for name in but)
    }


# Answers of an export, and the predicted files.


def table_rows(name, columns):
    """Returns a function that reads the texts of a table."""

    def read(data):
        delimiter = "," if name.endswith("csv") else "\t"
        with open(data / name, newline="") as file:
            rows = list(csv.DictReader(file, delimiter=delimiter))
        keys = ("text_a", "text_b")
        return [
            {k: row[c] for k, c in zip(keys, columns, strict=False)}
            for row in rows
        ]

    return read


def check_table(name, field):
    """Returns a function that compares labels or scores with a file."""

    def check(answers, folder):
        with open(folder / f"{name}.tsv", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        assert [row["index"] for row in rows] == list(
            map(str, range(len(answers)))
        )
        expected = [row["prediction"] for row in rows]
        found = [row[field] for row in answers]
        if field == "score":  # The file has four digits.
            expected = pytest.approx(list(map(float, expected)), abs=1e-4)
            assert all(0 <= score <= 5 for score in found)
        assert found == expected
        assert len(set(found)) > 1

    return check


def labelled_rows(data):
    lines = (data / "labels.jsonl").read_text().splitlines()
    return [{"text_a": json.loads(line)["text"]} for line in lines]


def check_labels(answers, folder):
    """Compares the labels of each row with a file, by its ids."""
    lines = (folder / "labels.tsv").read_text().splitlines()
    names = "id", "prediction", "probability_crew", "probability_sea"
    assert lines[0].split("\t") == [*names]
    expected = [
        [f"row {i}", ",".join(row["labels"])] for i, row in enumerate(answers)
    ]
    assert [line.split("\t")[:2] for line in lines[1:]] == expected
    assert len({tuple(row["labels"]) for row in answers}) > 1
    # The file of dev is the same.
    lines = (folder / "dev.jsonl").read_text().splitlines()
    rows = list(map(json.loads, lines))
    assert [row["predicted"] for row in rows] == [x["labels"] for x in answers]
    assert [row["id"] for row in rows] == [f"row {i}" for i in range(12)]
    assert rows[1]["source"] == "labels.jsonl:2"
    assert rows[1]["label"] == ["crew", "sea"]


def squad_scores(data, folder, version):
    """Returns the scores of the predicted answers."""
    answers = scores_of_answers.read_answers(
        str(data / f"squad/dev-v{version}.json")
    )
    predicted = json_files.read(folder / "predictions.json")
    return scores_of_answers.score(*answers, predicted)


def squad_rows(version):
    def read(data):
        content = json_files.read(data / f"squad/dev-v{version}.json")
        return [
            {"id": qa["id"], "question": qa["question"], "context": text}
            for article in content["data"]
            for paragraph in article["paragraphs"]
            for text in [paragraph["context"]]
            for qa in paragraph["qas"]
        ]

    return read


def check_squad(answers, folder):
    """Compares answers, all candidates and, if there are any, null odds."""
    expected = json_files.read(folder / "predictions.json")
    assert {row["id"]: row["answer"] for row in answers} == expected
    nbest = json_files.read(folder / "nbest_predictions.json")
    for row in answers:
        theirs = nbest[row["id"]]
        found = [(x["answer"], x["probability"]) for x in row["nbest"]]
        assert [x[0] for x in found] == [x["text"] for x in theirs]
        assert [x[1] for x in found] == pytest.approx(
            [x["probability"] for x in theirs], abs=1e-5
        )
    assert len({*expected.values()}) > 1
    # Half of the questions of 2.0 have no answer.
    is_version_2 = len(answers) == 6
    assert (folder / "null_odds.json").exists() == is_version_2
    assert ("" in expected.values()) == is_version_2
    if is_version_2:
        odds = json_files.read(folder / "null_odds.json")
        assert {row["id"]: row["null_odds"] for row in answers} == (
            pytest.approx(odds, abs=1e-5)
        )


def swag_rows(data):
    with open(data / "swag/test.csv", newline="") as file:
        return [
            {
                "context": row["sent1"],
                "endings": [
                    f"{row['sent2']} {row[f'ending{i}']}" for i in range(2)
                ],
            }
            for row in csv.DictReader(file)
        ]


def check_swag(answers, folder):
    with open(folder / "test.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row[""] for row in rows] == list(map(str, range(len(answers))))
    expected = [int(row["pred"]) for row in rows]
    assert [row["choice"] for row in answers] == expected
    assert len(set(expected)) > 1


def documents(path):
    """Returns the columns of each word, by document."""
    found = []
    for line in path.read_text().splitlines():
        if line.startswith("-DOCSTART-"):
            found.append([])
        elif line:
            found[-1].append(line.split(" "))
    return found


def ner_rows(data):
    rows = documents(data / "conll2003/eng.testa")
    return [{"words": [columns[0] for columns in row]} for row in rows]


def ner_scores(data, folder):
    """Returns the scores of the predicted tags."""
    blocks = (folder / "dev.txt").read_text().split("\n\n")
    rows = [
        [line.split(" ") for line in block.split("\n") if line]
        for block in blocks
    ]
    sides = ([[x[i] for x in row] for row in rows] for i in (-2, -1))
    return scores_of_tags.score(*sides)


def check_ner(answers, folder):
    rows = documents(folder / "dev.txt")
    expected = [[columns[-1] for columns in row] for row in rows]
    assert [row["tags"] for row in answers] == expected
    assert len({tag for tags in expected for tag in tags}) > 2
    # Several windows.
    assert max(map(len, expected)) > 16


def ranking_rows(data):
    """Returns a query and its passages for each topic, which has four rows."""
    with open(data / "ranking.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        {
            "query": rows[i]["query"],
            "passages": [row["passage"] for row in rows[i : i + 4]],
        }
        for i in range(0, len(rows), 4)
    ]


def check_ranking(answers, folder):
    """Compares scores with those of the file, which has a row for each pair."""
    lines = (folder / "own.tsv").read_text().splitlines()[1:]
    expected = [float(line.split("\t")[1]) for line in lines]
    for i, answer in enumerate(answers):
        own = expected[4 * i : 4 * i + 4]
        assert sorted(answer["order"]) == list(range(4))
        in_order = [own[number] for number in answer["order"]]
        assert answer["scores"] == pytest.approx(in_order, abs=1e-4)
        assert answer["scores"] == sorted(answer["scores"], reverse=True)
    assert len(set(expected)) > 1


_POOLER = ("encoder/pooler/",)
_GLUE = {
    "make": "make_glue_records",
    "windows": ["--max_seq_length=32"],
    "training": ["--num_train_epochs=1.34", "--learning_rate=1e-2"],
}
_ANSWERS = ["--n_best_size=6", "--max_answer_length=4"]
_SQUAD = {
    "task": "spans",
    "schema": "spans",
    "best_metric": "f1",
    "make": "make_squad_records",
    "windows": [
        *["--max_seq_length=16", "--doc_stride=4", "--max_query_length=6"],
    ],
    "check": check_squad,
    "sets": ("train", "dev"),
    "untrained": _POOLER,
}
TASKS = [
    Task(
        "pretraining",
        "run_pretraining",
        ["--input_file={data}/records/train"]
        + ["--eval_input_file={data}/records/held_out"],
        "pretraining",
        "pretraining",
        "mean_log_likelihood",
        (
            *("loss", "perplexity", "masked_lm_accuracy", "unigram_accuracy"),
            *("masked_lm_loss", "next_sentence_loss"),
            "next_sentence_accuracy",
        ),
        (
            "records/held_out/manifest.json",
            '"vocabulary": {\n    "sha256": "a',
            '"vocabulary": {\n    "sha256": "b',
            "held_out.* with a vocabulary of sha256",
        ),
        make="make_pretraining_records",
        windows=[],
        training=["--num_train_steps=4", "--num_warmup_steps=1"]
        + ["--early_stopping_evaluations=9"],
        sets=("train", "held_out"),
    ),
    Task(
        "classification",
        "run_glue",
        ["--task_name=CoLA", "--data_dir={data}/CoLA"],
        "classification",
        "classification",
        "matthews_correlation",
        ("matthews_correlation", "loss"),
        ("CoLA/dev.tsv", "\t1\t", "\tmaybe\t", "dev.tsv:2: label 'maybe' is"),
        asked=table_rows("CoLA/test.tsv", ["sentence"]),
        check=check_table("CoLA", "label"),
        labels=("0", "1"),
        # A seed whose labels are not all the same.
        **(_GLUE | {"training": [*_GLUE["training"], "--seed=2"]}),
    ),
    Task(
        "regression",
        "run_glue",
        ["--task_name=STS-B", "--data_dir={data}/STS-B"],
        "regression",
        "regression",
        "spearman",
        ("spearman", "pearson", "loss"),
        ("STS-B/dev.tsv", "\t2.5\n", "\tmuch\n", "dev.tsv:3: "),
        asked=table_rows("STS-B/test.tsv", ["sentence1", "sentence2"]),
        check=check_table("STS-B", "score"),
        **_GLUE,
    ),
    *(
        Task(
            f"{loss} ranking",
            "run_ranking",
            [
                f"--{split}_file={{data}}/ranking.csv"
                for split in ("train", "dev", "test")
            ]
            + ["--text_column=query,passage", "--label_column=grade"]
            + [f"--ranking_loss={loss}"],
            "regression",
            "ranking" if loss == "listwise" else "regression",
            "ndcg@10",
            ("ndcg@10", "mrr", "loss"),
            ("ranking.csv", ",1,", ",-1,", r"ranking.csv:\d: 'grade' is '-1'"),
            asked=ranking_rows,
            check=check_ranking,
            **(
                _GLUE
                | {"make": None, "training": [f"--num_train_epochs={epochs}"]}
            ),
        )
        for loss, epochs in (("binary", 0.8), ("listwise", 3.2))
    ),
    *(
        Task(
            name,
            script,
            [
                f"--{split}_file={{data}}/own.csv"
                for split in ("train", "dev", "test")
            ]
            + ["--task_name=own", "--text_column=first,second"]
            + ["--label_column=y", "--labels=bad,good,so so"],
            "classification",
            "classification",
            "accuracy",
            ("accuracy", "matthews_correlation", "loss"),
            ("own.csv", ",good", ",god", "own.csv:3: label 'god' is not one"),
            asked=table_rows("own.csv", ["first", "second"]),
            check=check_table("own", "label"),
            labels=("bad", "good", "so so"),
            untrained=untrained,
            **_GLUE,
        )
        for name, script, untrained in (
            ("own table", "run_glue", ()),
            ("few shot", "run_few_shot", _POOLER),
        )
    ),
    Task(
        "several labels",
        "run_glue",
        [
            f"--{split}_file={{data}}/labels.jsonl"
            for split in ("train", "dev", "test")
        ]
        + ["--task_name=labels", "--text_column=text", "--label_column=found"]
        + ["--multi_label", "--id_column=id"],
        "multi_label",
        "multi_label",
        "micro_f1",
        ("micro_f1", "macro_f1", "average_precision", "loss"),
        ("labels.jsonl", '"sea"', '{"a": 1}', "labels.jsonl:1: 'found' is"),
        asked=labelled_rows,
        check=check_labels,
        labels=("crew", "sea"),
        **_GLUE,
    ),
    Task(
        "SQuAD 1.1",
        "run_squad",
        ["--data_dir={data}/squad"],
        metrics=("f1", "exact_match"),
        wrong=("squad/train-v1.1.json", '_start": 4', '_start": 5', "at ans"),
        training=[*_ANSWERS, "--num_train_epochs=0.8"],
        asked=squad_rows("1.1"),
        scores=functools.partial(squad_scores, version="1.1"),
        **_SQUAD,
    ),
    Task(
        "SQuAD 2.0",
        "run_squad",
        ["--data_dir={data}/squad", "--version_2_with_negative"],
        metrics=("f1", "exact", "null_score_diff_threshold"),
        wrong=("squad/train-v2.0.json", '_start": 4', '_start": 5', "at ans"),
        training=[*_ANSWERS, "--num_train_epochs=0.4", "--learning_rate=1e-2"],
        asked=squad_rows("2.0"),
        scores=functools.partial(squad_scores, version="2.0"),
        **_SQUAD,
    ),
    Task(
        "SWAG",
        "run_swag",
        ["--data_dir={data}/swag"],
        "multiple_choice",
        "multiple_choice",
        "accuracy",
        ("accuracy", "loss"),
        ("swag/val.csv", "reads the letter.,", ",", "val.csv:"),
        make="make_swag_records",
        windows=["--max_seq_length=32"],
        training=["--num_train_epochs=2"],
        asked=swag_rows,
        check=check_swag,
    ),
    Task(
        "NER",
        "run_ner",
        ["--data_dir={data}/conll2003", "--notest_has_tags"],
        "tagging",
        "tagging",
        "entity_f1",
        ("entity_f1", "token_f1", "loss"),
        ("conll2003/eng.testa", "B-LOC", "B-SEA", "unknown tag 'B-SEA'; the"),
        make="make_ner_records",
        windows=["--max_seq_length=16", "--doc_stride=5"],
        training=["--num_train_epochs=2"],
        asked=ner_rows,
        check=check_ner,
        scores=ner_scores,
        words=("--signature=words",),
        labels=("O", "B-LOC", "I-LOC", "B-PER", "I-PER"),
        untrained=_POOLER,
    ),
    Task(
        "vectors",
        "run_embeddings",
        [f"--{split}_file={{data}}/STS-B/{split}.tsv" for split in SETS]
        + ["--text_column=sentence1,sentence2"]
        + ["--dev_score_column=score", "--score_range=0,5"],
        "pretraining",
        "texts",
        "spearman",
        ("spearman", "pearson"),
        ("STS-B/dev.tsv", "\t2.5\n", "\tmuch\n", "dev.tsv:3: 'score' is 'much"),
        make=None,
        windows=["--max_seq_length=32"],
        training=["--num_train_epochs=1.34", "--learning_rate=1e-2"],
        sets=SETS,
        untrained=("masked_lm/", "next_sentence/", "encoder/pooler/"),
    ),
]
