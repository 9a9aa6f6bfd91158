"""run_ner end to end with a two-layer model, and errors."""

import planted_ner as planted
import pytest
import served

from bert_tf.checkpoint import model_folders
from bert_tf.model import models
from bert_tf.tasks import ner_scores
from run_scripts import run_ner
from tfrecords.io import atomic_files, json_files
from tfrecords.tasks import ner_files


@pytest.fixture(scope="module")
def base_flags(tiny_model_flags):
    return [
        *tiny_model_flags,
        "--max_seq_length=24",
        "--train_batch_size=8",
        "--eval_batch_size=4",
        "--learning_rate=1e-2",
        "--num_train_epochs=10",
        "--save_checkpoints_steps=30",
        "--bucket_lengths=none",
    ]


def run(*flags):
    run_ner.main(["run_ner", *map(str, flags)])


@pytest.fixture(scope="module")
def ner_run(tmp_path_factory, base_flags):
    """A finished run; its test file has no tags."""
    folder = tmp_path_factory.mktemp("ner")
    planted.write(folder / "eng.train", planted.sentences(80))
    planted.write(folder / "eng.testa", planted.sentences(20, 1))
    planted.write(folder / "eng.testb", planted.sentences(9, 2), has_tags=False)
    output = folder / "run"
    flags = [
        f"--data_dir={folder}",
        "--notest_has_tags",
        "--doc_stride=7",
        f"--output_dir={output}",
        "--do_train",
        "--do_eval",
        "--do_predict",
        *base_flags,
    ]
    run(*flags)
    return flags, output


def test_ner_end_to_end(ner_run):
    flags, output = ner_run
    results = json_files.read(output / "eval_results.json")
    assert results["best_metric"] == "entity_f1"
    assert results["dev"]["entity_f1"] > 0.9
    # The second word of a name is equally often the first word of another.
    assert 0.3 < results["majority_baseline"]["dev"]["entity_f1"] < 0.9
    description = json_files.read(output / "best/model.json")
    assert description["task"] == "tagging"
    assert description["labels"] == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]

    # The scores are those of the tags in the file.
    rows = (output / "predictions/dev.txt").read_text().split("\n")
    assert rows[:2] == ["-DOCSTART- -X- -X- O O", ""]
    sides = [[], []]
    for block in "\n".join(rows).split("\n\n"):
        lines = [line.split(" ") for line in block.split("\n") if line]
        assert all(len(line) == 5 for line in lines)
        for side, column in zip(sides, (-2, -1), strict=True):
            side.append([line[column] for line in lines])
    scores = ner_scores.score(*sides)
    assert scores["entity_f1"] == results["dev"]["entity_f1"]
    assert scores["token_f1"] == results["dev"]["token_f1"]
    source = (output.parent / "eng.testa").read_text().split()
    found = (output / "predictions/dev.txt").read_text().split()
    assert [w for i, w in enumerate(found) if i % 5 < 4] == source

    lines = (output / "predictions/test.txt").read_text().split("\n")
    source = (output.parent / "eng.testb").read_text().split("\n")
    assert len(lines) == len(source)
    for line, columns in zip(lines, source, strict=True):
        assert line.rpartition(" ")[0] == columns

    # Evaluation and prediction alone reproduce the results.
    before = (output / "predictions/dev.txt").read_text()
    (output / "predictions/dev.txt").unlink()
    # Also without the flags of the windows used in training.
    windows = ("--max_seq_length", "--doc_stride")
    run(*[f for f in flags if f != "--do_train" and not f.startswith(windows)])
    again = json_files.read(output / "eval_results.json")
    assert again["dev"] == pytest.approx(results["dev"])
    assert again["majority_baseline"] == results["majority_baseline"]
    assert (output / "predictions/dev.txt").read_text() == before


@pytest.mark.slow
def test_an_export_equals_the_predicted_files(ner_run, tmp_path):
    _, output = ner_run
    documents = []
    for line in (output / "predictions/dev.txt").read_text().splitlines():
        if line.startswith("-DOCSTART-"):
            documents.append([])
        elif line:
            columns = line.split(" ")
            documents[-1].append((columns[0], columns[-1]))
    answers = served.answers(
        output,
        [{"words": [word for word, _ in rows]} for rows in documents],
        tmp_path,
        "--signature=words",
    )
    expected = [[tag for _, tag in rows] for rows in documents]
    assert [row["tags"] for row in answers] == expected
    assert len({tag for tags in expected for tag in tags}) > 2
    # Several windows, with an overlap other than the default.
    assert max(map(len, expected)) > 24
    # The tagging loss does not train the pooler, which was new here.
    description = json_files.read(tmp_path / "export/assets.extra/model.json")
    assert description["untrained"] == ["encoder/pooler/"]


@pytest.mark.slow
def test_other_schemes_and_another_stride(ner_run, tmp_path):
    flags, output = ner_run
    sentences = planted.sentences(20, 1)
    for scheme, letters in (("IOB1", "II"), ("BIOES", "SBE")):
        rows = []
        for row in sentences:
            tags = [tag for _, tag in row]
            for i, tag in enumerate(tags):
                goes_on = (*tags, "O")[i + 1][0] == "I"
                if scheme == "IOB1":
                    is_new = tag[0] == "B" and i and tags[i - 1][2:] != tag[2:]
                    letter = "I" if is_new or tag[0] == "I" else tag[0]
                elif tag[0] == "B":
                    letter = letters[goes_on]
                else:
                    letter = "I" if goes_on else "E"
                tags[i] = tag if tag == "O" else letter + tag[1:]
            rows.append([(w, t) for (w, _), t in zip(row, tags, strict=True)])
        path = planted.write(tmp_path / scheme, rows)
        assert ner_files.read(path).scheme == scheme
        result = tmp_path / f"run_{scheme}"
        run(
            f"--dev_file={path}",
            f"--init_checkpoint={output}",
            f"--output_dir={result}",
            "--max_seq_length=24",
            "--doc_stride=3",
            "--do_eval",
            "--do_predict",
        )
        # Both columns are in IOB2, whatever the scheme of the input.
        columns = [
            line.split()[3:]
            for line in (result / "predictions/dev.txt").read_text().split("\n")
            if line
        ]
        expected = [
            tag
            for i, row in enumerate(sentences)
            for tag in ["O"] * (i % 4 == 0) + [tag for _, tag in row]
        ]
        assert [gold for gold, _ in columns] == expected
        scores = json_files.read(result / "eval_results.json")["dev"]
        assert scores["entity_f1"] > 0.8


def write_columns(path, rows, tags_of, has_tags=True):
    """Writes rows of number, word, tag, _; returns the path."""
    lines = []
    for row in rows:
        lines.append("# a comment")
        tags = tags_of([tag for _, tag in row])
        for number, ((word, _), tag) in enumerate(zip(row, tags, strict=True)):
            tag = [tag, "_"] if has_tags else []
            lines.append("\t".join([str(number + 1), word, *tag]))
        lines.append("")
    path.write_text("\n".join(lines))
    return str(path)


def parts_of_speech(tags):
    return ["NOUN" if tag != "O" else "X" for tag in tags]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["BILOU", "plain"])
def test_other_columns_and_schemes_end_to_end(tmp_path, base_flags, scheme):
    def tags_of(tags):
        if scheme == "plain":
            return parts_of_speech(tags)
        return ner_files.in_scheme(tags, scheme)

    sets = [planted.sentences(n, seed) for seed, n in enumerate((80, 20, 5))]
    files = [
        f"--{split}_file="
        + write_columns(tmp_path / split, rows, tags_of, split != "test")
        for split, rows in zip(("train", "dev", "test"), sets, strict=True)
    ]
    output = tmp_path / "run"
    flags = [
        *files,
        "--notest_has_tags",
        *["--word_column=2", "--tag_column=3", "--comment_prefix=#"],
        *["--do_eval", "--do_predict", f"--output_dir={output}", *base_flags],
    ]
    run(*flags, "--do_train")
    results = json_files.read(output / "eval_results.json")
    metric = "accuracy" if scheme == "plain" else "entity_f1"
    assert results["best_metric"] == metric
    assert results["dev"][metric] > 0.9
    description = json_files.read(output / "best/model.json")
    assert description["tag_scheme"] == scheme
    # Each line is that of the file, without comments, and the predicted tag.
    lines = (output / "predictions/dev.txt").read_text().split("\n")
    rows = [line.split(" ") for line in lines if line]
    gold = [tag for row in sets[1] for tag in tags_of([t for _, t in row])]
    assert [row[1] for row in rows] == [w for row in sets[1] for w, _ in row]
    assert [row[-2] for row in rows] == gold
    if scheme == "plain":
        right = sum(row[-1] == row[-2] for row in rows)
        assert results["dev"]["accuracy"] == pytest.approx(right / len(rows))
    # Without tags, predictions are in the scheme of the training file.
    lines = (output / "predictions/test.txt").read_text().split("\n")
    found = {line.split(" ")[2][:2] for line in lines if line}
    assert found == (
        {"NO", "X"} if scheme == "plain" else {"O", "U-", "B-", "L-"}
    )
    before = (output / "predictions/test.txt").read_text()
    run(*flags)
    again = json_files.read(output / "eval_results.json")
    assert again["dev"] == pytest.approx(results["dev"])
    assert (output / "predictions/test.txt").read_text() == before


def mistake(message, *flags):
    with pytest.raises(ValueError, match=message):
        run(*flags)


def test_bad_files_are_refused(ner_run, tmp_path, base_flags):
    flags, output = ner_run
    path = planted.write(tmp_path / "odd", [[("the", "O"), ("sea", "B-SEA")]])
    to = f"--output_dir={tmp_path / 'run'}"
    trained = [to, f"--init_checkpoint={output}", "--max_seq_length=24"]
    mistake(
        f"{path}:4: unknown tag 'B-SEA'; the known types are LOC, PER",
        f"--dev_file={path}",
        "--do_eval",
        *trained,
    )
    train = ["--do_train", *base_flags, to, f"--train_file={path}"]
    mistake(
        f"{path}:4: unknown tag 'B-SEA'; the known types are LOC, PER.",
        *train,
        "--entity_types=PER,LOC",
    )
    mistake(
        "--do_eval needs a dev file of NER; there is only train",
        *train[:-1],
        f"--train_file={output.parent}/eng.train",
        "--do_eval",
    )
    mistake(
        "The entity types are unknown.*--entity_types=LOC",
        *train[:-1],
        f"--dev_file={path}",
    )
    mistake(
        "has no entities: every tag is O",
        *train[:-1],
        "--train_file=" + planted.write(tmp_path / "o", [[("the", "O")]]),
    )
    mistake("No data: give --data_dir=FOLDER of eng.train", *train[:-1])
    mistake("--dev_file=none: there is no file", *train, "--dev_file=none")
    mistake("Nothing to do", *train[1:])


def test_labels_that_differ_from_those_of_the_head_are_refused(
    ner_run, tmp_path, tiny_config
):
    flags, output = ner_run
    data = tmp_path / "data"
    data.mkdir()
    planted.write(data / "eng.testa", planted.sentences(3))
    classifier = tmp_path / "classifier"
    with atomic_files.atomic_folder(str(classifier)) as folder:
        model_folders.save_model(
            folder,
            models.BertClassifier(tiny_config, 2),
            metadata={"task": "classification", "labels": ["0", "1"]},
        )
    mistake(
        "is a model of task classification, not of tagging. Add --do_train",
        f"--data_dir={data}",
        f"--init_checkpoint={classifier}",
        f"--output_dir={tmp_path / 'run'}",
        "--max_seq_length=24",
        "--do_eval",
    )
    assert not (tmp_path / "run").exists()
    # A run resumes only with the same labels.
    planted.write(data / "eng.train", [[("sea", "B-SEA")]])
    mistake(
        "holds records of other settings or files: .*B-LOC.* there, .*B-SEA",
        *flags,
        f"--data_dir={data}",
        "--test_file=",
    )
