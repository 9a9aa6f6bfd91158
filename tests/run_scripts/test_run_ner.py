"""run_ner learns tags of any scheme; the rest is in tests/contracts."""

import json

import planted_ner as planted
import pytest

from bert_tf.tasks import ner_scores
from run_scripts import run_ner
from tfrecords.io import json_files
from tfrecords.tasks import ner_files


@pytest.fixture(scope="module")
def base_flags(tiny_model_flags):
    return [
        *(*tiny_model_flags, "--max_seq_length=24", "--train_batch_size=8"),
        *("--eval_batch_size=4", "--learning_rate=1e-2"),
        *("--num_train_epochs=10", "--save_checkpoints_steps=30"),
        "--bucket_lengths=none",
    ]


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


@pytest.mark.slow
def test_other_columns_and_schemes_end_to_end(tmp_path, base_flags):
    def tags_of(tags):
        return ner_files.in_scheme(tags, "BILOU")

    sets = [planted.sentences(n, seed) for seed, n in enumerate((80, 20, 5))]
    files = [
        f"--{split}_file="
        + write_columns(tmp_path / split, rows, tags_of, split != "test")
        for split, rows in zip(("train", "dev", "test"), sets, strict=True)
    ]
    output = tmp_path / "run"
    run_ner.main(
        [
            *("run_ner", *files, "--notest_has_tags"),
            *["--word_column=2", "--tag_column=3", "--comment_prefix=#"],
            *["--do_train", "--do_eval", "--do_predict"],
            *[f"--output_dir={output}", *base_flags],
        ]
    )
    results = json_files.read(output / "eval_results.json")
    assert results["best_metric"] == "entity_f1"
    assert results["dev"]["entity_f1"] > 0.9
    description = json_files.read(output / "best/model.json")
    assert description["tag_scheme"] == "BILOU"
    # Each line is that of the file, without comments, and the predicted tag.
    lines = (output / "predictions/dev.txt").read_text().split("\n")
    rows = [line.split(" ") for line in lines if line]
    gold = [tag for row in sets[1] for tag in tags_of([t for _, t in row])]
    assert [row[1] for row in rows] == [w for row in sets[1] for w, _ in row]
    assert [row[-2] for row in rows] == gold
    # Without tags, predictions are in the scheme of the training file.
    lines = (output / "predictions/test.txt").read_text().split("\n")
    found = {line.split(" ")[2][:2] for line in lines if line}
    assert found == {"O", "U-", "B-", "L-"}


def annotated(row):
    """Returns a text and its spans."""
    words, tags = zip(*row, strict=True)
    starts = [sum(len(w) + 1 for w in words[:i]) for i in range(len(words))]
    spans = [
        {
            "start": starts[first],
            "end": starts[last - 1] + len(words[last - 1]),
            "label": label,
        }
        for first, last, label in sorted(ner_scores.extract_entities(tags))
    ]
    return {"text": " ".join(words), "entities": spans}


@pytest.mark.slow
def test_spans_of_characters_come_in_and_go_out_again(tmp_path, base_flags):
    files, rows = [], {}
    for seed, split in enumerate(("train", "dev", "test")):
        size = 80 if split == "train" else 20
        found = planted.sentences(size, seed)
        rows[split] = [annotated(row) for row in found]
        path = tmp_path / f"{split}.jsonl"
        shown = [{"text": row["text"]} for row in rows[split]]
        if split != "test":
            shown = rows[split]
        path.write_text("\n".join(map(json.dumps, shown)))
        files.append(f"--{split}_file={path}")
    output = tmp_path / "run"
    run_ner.main(
        [
            *("run_ner", *files, "--notest_has_tags"),
            *["--do_train", "--do_eval", "--do_predict"],
            *[f"--output_dir={output}", *base_flags],
        ]
    )
    results = json_files.read(output / "eval_results.json")
    assert results["dev"]["entity_f1"] > 0.9
    for split in ("dev", "test"):
        path = output / f"predictions/{split}.rows.jsonl"
        found = list(map(json.loads, path.read_text().splitlines()))
        assert found[1].pop("row") == f"{split}.jsonl:2"
        found = [{name: x[name] for name in rows[split][0]} for x in found]
        assert [x["text"] for x in found] == [x["text"] for x in rows[split]]
        right = sum(x == y for x, y in zip(found, rows[split], strict=True))
        assert right > 0.7 * len(found)
    # What is written can be learnt from.
    corpus = ner_files.read(str(output / "predictions/test.rows.jsonl"))
    assert len(corpus.documents) == 20 and corpus.counts.spans > 20
