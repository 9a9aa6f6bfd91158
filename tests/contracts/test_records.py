"""Records of every kind: as written, described, resumed, refused and named.

A new kind of records is a row of `KINDS`.
"""

import csv
import errno
import importlib
import json
import os
import re
import shlex
import shutil
from typing import NamedTuple

import numpy as np
import planted_data
import pytest

from run_scripts.flags import engine_flags
from tfrecords import libraries, schema
from tfrecords.engines import processes
from tfrecords.io import atomic_files, records, serialization
from tfrecords.pretraining import file_parts
from tfrecords.reading import batches
from tfrecords.text import vocab

# To trace the tokenizer takes longer than a few rows.
pytestmark = pytest.mark.usefixtures("eagerly_in_module")

# Flags of all rows; those of a row follow, and the last of two counts.
_ALL = "--vocab_file=vocab.txt --max_seq_length=32"
_TEXT = (
    f"{_ALL} --input_file=text/*.txt --num_processes=1 --num_shards=2 "
    "--max_predictions_per_seq=5 --dupe_factor=2"
)
_DYNAMIC = "--masking_time=dynamic --short_seq_prob=0.5"
_PACKED = "--max_examples_per_row=3 --short_seq_prob=0.9"


class Kind(NamedTuple):
    """Records of one kind, and what happens to them.

    Attributes:
      name: id of the test.
      script: module in run_scripts that makes them.
      flags: its flags, as typed in a shell in the folder of the inputs.
      schemas: folder -> key of `schema.SCHEMAS`.
      made_with: entries of the flags in the manifests.
      other: another flag, with which the folder is refused, and the message.
      damage: a file that is read, a part of it, what replaces this, and how the
        damage is named, after the name of the file.
    """

    name: str
    script: str
    flags: str
    schemas: dict[str, str]
    made_with: dict
    other: tuple[str, str]
    damage: tuple[str, bytes, bytes, str]


def _name(kind):
    return kind.name


def _pretraining(schema_name, flags="", name="", damage=(), **made_with):
    """A row of make_pretraining_records, with documents held out."""
    made_with |= {"num_shards": 2, "dupe_factor": 2, "masked_lm_prob": 0.15}
    folders, text = ("train",), _TEXT
    if "compat" not in flags:
        folders, text = ("train", "held_out"), f"{_TEXT} --held_out_prob=0.2"
        made_with |= {"held_out_prob": 0.2, "version": 2}
    utf_16 = ("text/two.txt", b"The", b"\xff\xfeT\0h\0e\0")
    return Kind(
        name or schema_name,
        "make_pretraining_records",
        f"{text} {flags}",
        dict.fromkeys(folders, schema_name),
        made_with | {"max_seq_length": 32, "max_predictions_per_seq": 5},
        ("--random_seed=7", "random_seed=12345; now it is random_seed=7"),
        damage or (*utf_16, ":1: the file is UTF-16; convert it"),
    )


def _task(name, script, flags, schemas, *others):
    """A row of another script, with the schemas of train, dev and test."""
    folders = dict(zip(("train", "dev", "test"), schemas, strict=False))
    script = f"make_{script}_records"
    return Kind(name, script, f"{_ALL} {flags}", folders, *others)


_OWN_WEIGHTS = (
    "--train_file=labels.jsonl --text_column=text --weight_column=weight"
)
_LABELS = ["O", "B-SEA", "I-SEA"]
KINDS = [
    _pretraining("pretraining", "--nodo_lower_case", do_lower_case=False),
    _pretraining(
        "pretraining",
        "--pairs=sentence_order --masking=spans",
        "sentence_order",
        pairs="sentence_order",
        masking="spans",
    ),
    _pretraining(
        "masked_lm",
        "--pairs=none --mask_mix=mask:1",
        pairs="none",
        mask_mix=["mask:1"],
    ),
    _pretraining(
        "unmasked_pairs",
        f"{_DYNAMIC} --do_whole_word_mask",
        masking_time="dynamic",
        do_whole_word_mask=True,
    ),
    _pretraining(
        "unmasked_segments", f"{_DYNAMIC} --pairs=none", short_seq_prob=0.5
    ),
    _pretraining("packed_pretraining", _PACKED, max_examples_per_row=3),
    _pretraining("packed_masked_lm", f"{_PACKED} --pairs=none", pairs="none"),
    _pretraining("packed_unmasked_pairs", f"{_DYNAMIC} {_PACKED}"),
    _pretraining(
        "packed_unmasked_segments", f"{_DYNAMIC} {_PACKED} --pairs=none"
    ),
    _pretraining(
        "pretraining", "--compat=original", "original", compat="original"
    ),
    _pretraining(
        "pretraining",
        "--input_file=rows.jsonl --text_field=body "
        "--drop_duplicates=documents --drop_duplicates=lines",
        "rows",
        (
            *("rows.jsonl", b"{", b'{"bodies": ""}\n{'),
            ":1: the line is an object with the fields ['bodies']",
        ),
        text_field="body",
        drop_duplicates=["documents", "lines"],
    ),
    _task(
        "pairs of texts",
        "glue",
        "--task_name=mrpc --data_dir=glue/MRPC",
        ("classification", "classification", "encoder_inputs"),
        {"task_name": "MRPC", "labels": ["0", "1"]},
        ("--max_seq_length=16", "max_seq_length 32 there, 16 now"),
        ("glue/MRPC/test.tsv", b"\n3\t", b"\nx\n3\t", ":5: 1 columns where"),
    ),
    _task(
        "scores",
        "glue",
        "--task_name=STS-B --data_dir=glue/STS-B",
        ("regression", "regression", "encoder_inputs"),
        {"task_name": "STS-B", "labels": []},
        ("--nodo_lower_case", "do_lower_case True there, False now"),
        (
            "glue/STS-B/dev.tsv",
            b"\t2.5\n",
            b"\t5.5\n",
            ":3: label '5.5' is not",
        ),
    ),
    _task(
        "own table",
        "glue",
        "--train_file=own.csv --text_column=a,b --label_column=grade "
        "--labels=bad,good --dev_share=0.3",
        ("classification", "classification"),
        {
            **{"text_columns": ["a", "b"], "label_column": "grade"},
            **{"labels": ["bad", "good"]},
            "held_out": {
                **{"dev_share": 0.3, "seed": 12345},
                **{"stratified": True, "groups": None},
            },
        },
        ("--labels=good,bad", "labels .* there, .* now"),
        ("own.csv", b",bad\n", b",fair\n", ":2: label 'fair' is not one of "),
    ),
    _task(
        "several labels",
        "glue",
        "--train_file=labels.jsonl --text_column=text --label_column=found "
        "--multi_label --weight_column=weight --group_column=author "
        "--dev_share=0.3",
        ("weighted_multi_label", "multi_label"),
        {
            **{"labels": ["bad", "good", "long"], "label_separator": ","},
            "held_out": {
                **{"dev_share": 0.3, "seed": 12345},
                **{"stratified": True, "groups": "author"},
            },
        },
        ("--label_separator=;", "label_separator ',' there, ';' now"),
        ("labels.jsonl", b'"weight": 1', b'"weight": -1', ":1: 'weight' is"),
    ),
    _task(
        "weighted classes",
        "glue",
        f"{_OWN_WEIGHTS} --label_column=author --dev_share=0.5",
        ("weighted_classification", "classification"),
        {"labels": [f"a{i}" for i in range(6)]},
        ("--text_column=author", "text_columns .* there, .* now"),
        ("labels.jsonl", b'"weight": 1', b'"weight": ""', ":1: 'weight' is"),
    ),
    _task(
        "weighted scores",
        "glue",
        f"{_OWN_WEIGHTS} --label_column=weight --labels=score --dev_share=0.5",
        ("weighted_regression", "regression"),
        {"labels": []},
        ("--text_column=author", "text_columns .* there, .* now"),
        ("labels.jsonl", b'"weight": 1', b'"weight": "x"', ":1: label 'x' is"),
    ),
    _task(
        "spans",
        "squad",
        "--data_dir=squad --doc_stride=5 --max_query_length=8",
        ("spans", "encoder_inputs"),
        {"task_name": "SQuAD", "doc_stride": 5, "max_query_length": 8},
        ("--doc_stride=6", "doc_stride 5 there, 6 now"),
        (
            *("squad/dev-v1.1.json", b'"Who sat by the door?"', b"7"),
            ": article 1 ('Invented'), paragraph 1, question 'a': question is",
        ),
    ),
    _task(
        "choices",
        "swag",
        "--data_dir=swag",
        ("multiple_choice", "multiple_choice", "choice_inputs"),
        {"task_name": "SWAG", "num_choices": 4},
        ("--max_seq_length=16", "max_seq_length 32 there, 16 now"),
        (
            *("swag/test.csv", b"gold,waits for the boat.", b"gold,"),
            ":2: 3 endings where the file has 4: ending0 is empty",
        ),
    ),
    _task(
        "tags",
        "ner",
        "--train_file=tags.txt --dev_file=tags.txt --test_file=tags.txt "
        "--word_column=2 --tag_column=4 --comment_prefix=# --doc_stride=9",
        ("tagging", "tagging", "tagging"),
        {
            **{"word_column": 2, "tag_column": 4, "comment_prefix": "#"},
            **{"labels": ["O", "B-SEA", "I-SEA"], "doc_stride": 9},
        },
        ("--tag_column=3", "tag_column 4 there, 3 now"),
        ("tags.txt", b"2 sea", b"2_sea", ":2: 3 columns, '2_sea B-X B-SEA'"),
    ),
    _task(
        "tags of rows",
        "ner",
        "--train_file=words.jsonl --dev_file=words.jsonl --word_column=w "
        "--tag_column=t",
        ("tagging", "tagging"),
        {"word_column": "w", "tag_column": "t", "labels": _LABELS},
        ("--tag_column=u", "tag_column 't' there, 'u' now"),
        ("words.jsonl", b'["the", ', b"[", ":1: 1 words in 'w' and 2 tags in"),
    ),
    _task(
        "spans of characters",
        "ner",
        "--train_file=marked.jsonl --dev_file=studio.json --span_mismatch=drop",
        ("tagging", "tagging"),
        {"labels": _LABELS, "span_mismatch": "drop"},
        ("--span_mismatch=widen", "span_mismatch 'drop' there, 'widen' now"),
        ("marked.jsonl", b"[4, 7,", b"[4, null,", ":1: 'label' has [4, None"),
    ),
]


# Key of `schema.SCHEMAS` -> the first kind that has it.
FIRST = {
    name: kind.name
    for kind in reversed(KINDS)
    for name in kind.schemas.values()
}


def test_every_schema_has_a_kind():
    # A run makes these, and no other script: see `contracts.tasks`.
    of_runs = {"texts", "scored_texts", "taught_texts", "ranking"}
    assert FIRST.keys() == schema.SCHEMAS.keys() - of_runs


# Inputs, and runs of the scripts.


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, tiny_vocab_file):
    """The files that `KINDS` name; tests that change them copy the folder."""
    folder = tmp_path_factory.mktemp("inputs")
    lines = planted_data.sentences()
    (folder / "text").mkdir()
    for name in ("one", "two"):
        source = planted_data.DATA / "sentences.txt"
        shutil.copy(source, folder / f"text/{name}.txt")
    bodies = [
        f"{a}\n{b}" for a, b in zip(lines[::2], lines[1::2], strict=False)
    ]
    rows = [json.dumps({"body": body}) + "\n" for body in bodies[:8]]
    (folder / "rows.jsonl").write_text("".join([*rows, rows[0]]))
    planted_data.write_glue(folder / "glue")
    planted_data.write_squad(folder / "squad")
    planted_data.write_swag(folder / "swag")
    with open(folder / "own.csv", "w", newline="") as file:
        grades = ["bad", "good"] * 4
        table = zip(lines, lines[1:], grades, strict=False)
        csv.writer(file, lineterminator="\n").writerows(
            [("a", "b", "grade"), *table]
        )
    with open(folder / "labels.jsonl", "w") as file:
        for i, found in enumerate([["bad"], ["good", "long"], [], "good"] * 3):
            row = {"text": lines[i], "found": found, "weight": 1 + i % 2}
            file.write(json.dumps(row | {"author": f"a{i // 2}"}) + "\n")
    tags = "1 the O O\n2 sea B-X B-SEA\n# end the file\n\n1 ship O O\n"
    (folder / "tags.txt").write_text(tags)
    words = {"w": ["the", "sea"], "t": ["O", "B-SEA"], "u": ["O", "I-SEA"]}
    (folder / "words.jsonl").write_text(json.dumps(words) + "\n")
    # The last span ends within a word.
    spans = [[4, 7, "SEA"], [8, 10, "SEA"]]
    marked = {"text": "the sea ship", "label": spans}
    (folder / "marked.jsonl").write_text(json.dumps(marked) + "\n")
    value = {"start": 4, "end": 7, "text": "sea", "labels": ["SEA"]}
    task = {"data": marked, "annotations": [{"result": [{"value": value}]}]}
    (folder / "studio.json").write_text(json.dumps([task], indent=1))
    shutil.copy(tiny_vocab_file, folder / "vocab.txt")
    return folder


class Made(NamedTuple):
    """A folder of records: folders, and the rows of each of its shards."""

    kind: Kind
    inputs: os.PathLike
    folder: os.PathLike
    written: dict[str, list]

    def sets(self):
        """Yields folder, records and features of each set."""
        for name, schema_name in self.kind.schemas.items():
            found = records.Records.open(str(self.folder / name))
            yield name, found, schema.SCHEMAS[schema_name]


def run(kind, inputs, folder, more=""):
    """Makes records."""
    module = importlib.import_module(f"run_scripts.{kind.script}")
    words = shlex.split(f"{kind.flags} --output_dir={folder} {more}")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(inputs)
        module.main([kind.script, *words])


def shards_written(patch, stop_after=None, error=None):
    """Returns {folder/shard: its rows}, filled when shards are written.

    After `stop_after` shards, the next one stops with `error` in the middle.
    """
    written, write = {}, records.write_shard
    serialize = serialization.serialize_rows

    def write_shard(path, serialized):
        name = "/".join(path.split("/")[-2:])
        is_last = len(written) == stop_after
        written[name] = []
        return write(path, stopping(serialized) if is_last else serialized)

    def stopping(serialized):
        yield next(iter(serialized))
        raise error

    def serialize_rows(rows, *others):
        written[[*written][-1]].append(rows)
        return serialize(rows, *others)

    patch.setattr(records, "write_shard", write_shard)
    patch.setattr(serialization, "serialize_rows", serialize_rows)
    return written


@pytest.fixture(scope="module", params=KINDS, ids=_name)
def made(request, inputs, tmp_path_factory):
    """Records of a kind; tests that change them copy the folder."""
    folder = tmp_path_factory.mktemp("made") / "out"
    with pytest.MonkeyPatch.context() as patch:
        written = shards_written(patch)
        run(request.param, inputs, folder)
    return Made(request.param, inputs, folder, written)


def content(folder, with_times=False):
    """Returns path -> content of all files; of the journal, its lines."""
    files = {}
    for path in filter(os.path.isfile, folder.rglob("*")):
        name = str(path.relative_to(folder))
        files[name] = path.read_bytes()
        if name == "progress.jsonl":
            # In the order in which shards were completed.
            files[name] = set(files[name].splitlines())
        elif with_times:
            files[name] = files[name], path.stat().st_mtime_ns
    return files


def stop(made, folder, shards, error):
    """Stops a run in the middle of a shard; returns those before it."""
    with pytest.MonkeyPatch.context() as patch:
        written = shards_written(patch, shards, error)
        with pytest.raises(type(error)):
            run(made.kind, made.inputs, folder)
    assert len(written) == shards + 1
    return [*written][:-1]


@pytest.fixture(scope="module")
def unfinished(made, tmp_path_factory):
    """Folder of a run that a full disk stopped in its second shard."""
    folder = tmp_path_factory.mktemp("unfinished")
    (shard,) = stop(made, folder, 1, OSError(errno.ENOSPC, "No space left"))
    assert (folder / shard).exists()
    return folder


# What a folder holds.


def test_records_read_back_are_those_that_were_written(made):
    for folder, found, features in made.sets():
        sizes = found.manifest.sizes
        assert set(found.features(0)) == set(features)
        read = found.read(features)
        blocks = sum(
            (made.written[f"{folder}/{s.name}"] for s in found.manifest.shards),
            [],
        )
        for name, feature in features.items():
            rows = np.concatenate([block[name] for block in blocks])
            shape = schema.shape_of(feature, sizes)
            assert read[name].shape == (len(found), *shape) == rows.shape
            assert read[name].dtype == feature.dtype
            np.testing.assert_array_equal(read[name], rows, name)


def test_rows_are_valid_inputs_of_a_model(made, tiny_vocab_file):
    entries = vocab.read(tiny_vocab_file)
    for _, found, features in made.sets():
        read = found.read(features)
        ids, mask, types = (
            read[name].reshape(-1, 32) for name in schema.ENCODER_INPUTS
        )
        ends = mask.sum(axis=1)
        np.testing.assert_array_equal(mask, np.arange(32) < ends[:, None])
        assert (ids[:, 0] == entries.index("[CLS]")).all()
        last = np.take_along_axis(ids, ends[:, None] - 1, axis=1)
        assert (last == entries.index("[SEP]")).all()
        assert ids.min() >= 0 and ids.max() < len(entries)
        assert not ids[mask == 0].any() and not types[mask == 0].any()
        assert set(np.unique(types)) <= {0, 1}
        if "masked_lm_weights" in read:
            is_used = read["masked_lm_weights"] > 0
            assert is_used.any(axis=1).all()
            positions = np.where(is_used, read["masked_lm_positions"], 0)
            assert (positions < ends[:, None]).all()
            for name in ("masked_lm_positions", "masked_lm_ids"):
                assert not read[name][~is_used].any()


def test_the_manifest_says_how_they_were_made(made, tiny_vocab_file):
    for folder, found, features in made.sets():
        manifest = found.manifest
        assert manifest.schema_name == made.kind.schemas[folder]
        flags, expected = manifest.flags, made.kind.made_with
        assert {name: flags.get(name) for name in expected} == expected
        assert manifest.sizes["max_seq_length"] == 32
        assert manifest.vocabulary == {
            "sha256": atomic_files.digest(tiny_vocab_file),
            "size": len(vocab.read(tiny_vocab_file)),
            "do_lower_case": "--nodo_lower_case" not in made.kind.flags,
        }
        names = {"tensorflow-text"}
        if made.kind in PARALLEL:  # It may end sentences.
            names.add("sentencex")
        assert manifest.libraries == {n: libraries.version(n) for n in names}
        for path, shard in zip(found.paths, manifest.shards, strict=True):
            assert atomic_files.digest(path) == shard.sha256
        statistics = manifest.statistics
        tokens = statistics.get("example_tokens", statistics.get("tokens"))
        assert tokens == found.read(features)["input_mask"].sum()
        assert manifest.num_examples == len(found) > 0
    names = {*os.listdir(made.folder)} - {"progress.jsonl"}
    assert names == set(made.kind.schemas)


@pytest.mark.parametrize(
    "made",
    [kind for kind in KINDS if kind.name in FIRST.values()],
    indirect=True,
    ids=_name,
)
def test_each_schema_is_read_in_batches(made):
    for folder, found, _ in made.sets():
        schema_name = made.kind.schemas[folder]
        if folder == "held_out" or FIRST[schema_name] != made.kind.name:
            continue
        features = schema.of_batch(schema_name)
        sizes = found.manifest.sizes
        dataset = batches.training_batches(
            found, features, sizes, batch_size=2, seed=1, vocab_size=1000
        )
        expected = schema.batch_signature(features, sizes, 2)
        assert {*dataset.element_spec} == {*expected, "is_real_example"}
        batch = next(iter(dataset))
        for name, feature in expected.items():
            assert batch[name].shape == feature.shape, name
            assert batch[name].dtype == feature.dtype, name
        if "masked_lm_weights" in batch:
            assert batch["masked_lm_weights"].numpy().any(axis=1).all()


# Runs that go on.


def test_the_same_command_again_changes_nothing(made, monkeypatch):
    before = content(made.folder, with_times=True)
    monkeypatch.setattr(records, "write_shard", None)
    run(made.kind, made.inputs, made.folder)
    assert content(made.folder, with_times=True) == before


@pytest.mark.parametrize("shards", [0, 1])
def test_a_run_stopped_in_a_shard_resumes_to_the_same_bytes(
    made, unfinished, tmp_path, monkeypatch, shards
):
    if shards:
        shutil.copytree(unfinished, tmp_path, dirs_exist_ok=True)
    else:
        stop(made, tmp_path, shards, KeyboardInterrupt())
    left = content(tmp_path)
    finished = {name for name in left if name.endswith(".tfrecord")}
    assert len(finished) == shards
    assert not any(name.endswith(".tmp") for name in left)
    written = shards_written(monkeypatch)
    run(made.kind, made.inputs, tmp_path)
    assert content(tmp_path) == content(made.folder)
    # The random numbers of the original cannot be resumed.
    if made.kind.name != "original":
        assert not finished & {*written}


@pytest.mark.parametrize("what", ["lost shard", "cut shard", "lost manifest"])
def test_what_is_lost_or_cut_is_made_again_alone(
    made, tmp_path, monkeypatch, what
):
    folder = tmp_path / "out"
    shutil.copytree(made.folder, folder)
    shard = [*made.written][1]
    path = folder / shard
    if what == "cut shard":
        os.truncate(path, 10)
    else:
        os.remove(path if "shard" in what else path.parent / "manifest.json")
    # A killed writer left the first; the other one is somebody's.
    (path.parent / f".train-00000.{'ab' * 8}.tmp").write_text("half")
    (path.parent / "notes.tmp").write_text("mine")
    written = shards_written(monkeypatch)
    run(made.kind, made.inputs, folder)
    assert (path.parent / "notes.tmp").read_text() == "mine"
    os.remove(path.parent / "notes.tmp")
    assert content(folder) == content(made.folder)
    if made.kind.name != "original":
        assert {*written} <= {shard}


class Backwards(processes.Workers):
    """Completes the last job first, as other processes may."""

    most = 0

    def results(self, function, jobs, name):
        Backwards.most = max(len(jobs), self.most)
        for index in reversed(range(len(jobs))):
            yield index, function(jobs[index])


PARALLEL = [
    kind
    for kind in KINDS
    if "pretraining" in kind.script and kind.name != "original"
]


@pytest.mark.parametrize("made", PARALLEL, indirect=True, ids=_name)
def test_the_order_and_the_parts_of_jobs_change_no_byte(
    made, tmp_path, monkeypatch
):
    monkeypatch.setattr(file_parts, "PART_BYTES", 350)
    monkeypatch.setattr(engine_flags, "engine", lambda *_: Backwards(1))
    Backwards.most = 0
    run(made.kind, made.inputs, tmp_path)
    assert content(tmp_path) == content(made.folder)
    assert Backwards.most > 2


@pytest.mark.slow
@pytest.mark.parametrize("made", PARALLEL[-1:], indirect=True, ids=_name)
def test_two_processes_write_the_bytes_of_one(made, tmp_path, monkeypatch):
    monkeypatch.setattr(file_parts, "PART_BYTES", 350)
    run(made.kind, made.inputs, tmp_path, "--num_processes=2")
    assert content(tmp_path) == content(made.folder)


# What is refused and named.


def test_another_setting_is_refused_and_changes_nothing(made, unfinished):
    flag, message = made.kind.other
    for folder in (unfinished, made.folder):
        before = content(folder)
        with pytest.raises(ValueError, match=message):
            run(made.kind, made.inputs, folder, flag)
        assert content(folder) == before


def test_another_source_is_refused_and_changes_nothing(made, tmp_path):
    inputs, before = tmp_path / "inputs", content(made.folder)
    shutil.copytree(made.inputs, inputs)
    with open(inputs / made.kind.damage[0], "a") as file:
        file.write("\n")
    with pytest.raises(ValueError, match="input_files=|source_sha256 .* there"):
        run(made.kind, inputs, made.folder)
    assert content(made.folder) == before


@pytest.mark.parametrize("kind", KINDS, ids=_name)
def test_what_cannot_be_read_is_named_with_file_and_line(
    kind, inputs, tmp_path
):
    name, old, new, message = kind.damage
    shutil.copytree(inputs, tmp_path / "inputs")
    path, folder = tmp_path / "inputs" / name, tmp_path / "out"
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(ValueError, match=re.escape(f"{name}{message}")):
        run(kind, tmp_path / "inputs", folder)
    left = [name for name in content(folder) if not name.startswith("work/")]
    assert left in ([], ["progress.jsonl"])


def test_a_damaged_shard_is_named_when_read(made, tmp_path):
    shutil.copytree(made.folder, tmp_path, dirs_exist_ok=True)
    path = tmp_path / [*made.written][0]
    features = schema.SCHEMAS[made.kind.schemas[path.parent.name]]
    data = path.read_bytes()
    half = len(data) // 2
    path.write_bytes(data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :])
    found = records.Records.open(str(path.parent))
    with pytest.raises(ValueError, match=f"Corrupt .*{path}', record"):
        found.read(features)
    path.write_bytes(data[:-1])
    with pytest.raises(ValueError, match=f"Truncated .*{path}', record"):
        records.Records.open(str(path.parent))
