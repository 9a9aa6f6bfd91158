"""Runs with --teacher: every trainer, killed and resumed, other replicas."""

import shutil
import signal

import exports
import planted_data
import pytest
import run_processes
import safetensors.numpy

import bert_tf
from bert_tf import config as bert_config
from bert_tf.model import models
from run_scripts import run_glue, run_ner, run_pretraining, run_squad
from tfrecords.io import json_files

LOSSES = "--distillation_losses=soft_targets,attention_relations,"
RELATIONS = {"attention_relations_loss", "hidden_relations_loss"}
NER_LABELS = ["O", "B-LOC", "B-PER", "I-LOC", "I-PER"]
# Script -> task of its models, and the losses of one step.
RUNNERS = {
    run_glue: (
        "classification",
        {"classification_loss", "classification_soft_targets_loss"},
    ),
    run_squad: (
        "spans",
        {"span_loss", "start_soft_targets_loss", "end_soft_targets_loss"},
    ),
    run_ner: ("tagging", {"tagging_loss", "tagging_soft_targets_loss"}),
    run_pretraining: (
        "pretraining",
        {
            "masked_lm_loss",
            "masked_lm_soft_targets_loss",
            "next_sentence_loss",
            "next_sentence_soft_targets_loss",
        },
    ),
}


def write_teacher(folder, task, labels=None, seed=1, format="bert_tf"):
    """Writes a model of three layers of 32 with random weights."""
    model = exports.make_model(task)
    sizes = dict(hidden_size=32, num_hidden_layers=3, initializer_range=0.3)
    sizes = bert_config.BertConfig(**(model.config.to_dict() | sizes))
    import keras

    keras.utils.set_random_seed(seed)
    model = models.for_task(task, sizes, len(labels or ()))
    ours = folder / "ours"
    exports.save_model(model, task, ours, labels=labels)
    if format == "bert_tf":
        return ours
    bert_tf.save(bert_tf.load(ours)[0], folder / format, format=format)
    return folder / format


def labels_of(task):
    if task == "classification":
        return ["0", "1"]
    return NER_LABELS if task == "tagging" else None


@pytest.fixture(scope="module")
def data(tmp_path_factory, tiny_config, pretraining_records):
    """Folder of the data of all tasks, and of pre-training records."""
    folder = tmp_path_factory.mktemp("data")
    planted_data.write_glue(folder)
    planted_data.write_squad(folder / "squad")
    planted_data.write_conll(folder / "conll2003")
    shutil.copytree(pretraining_records, folder / "records")
    return folder


def flags_of(script, data):
    own = {
        run_glue: ["--task_name=SST-2", f"--data_dir={data}/SST-2"],
        run_squad: [f"--data_dir={data}/squad", "--doc_stride=16"],
        run_ner: [f"--data_dir={data}/conll2003"],
    }
    if script is run_pretraining:
        return [
            f"--input_file={data}/records/train",
            f"--eval_input_file={data}/records/held_out",
            *("--num_train_steps=3", "--num_warmup_steps=1"),
            *("--max_eval_steps=1", "--train_batch_size=4"),
        ]
    sizes = ["--max_seq_length=32", "--train_batch_size=4", "--do_train"]
    sizes += ["--do_eval", "--num_train_epochs=1", "--bucket_lengths=none"]
    return [*own[script], *sizes]


def run(script, *flags):
    script.main([script.__name__.rpartition(".")[2], *map(str, flags)])


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("script", RUNNERS, ids=lambda x: x.__name__)
def test_every_trainer_has_a_teacher(script, data, tmp_path, tiny_model_flags):
    task, losses = RUNNERS[script]
    format = "hugging_face" if script is run_glue else "bert_tf"
    teacher = write_teacher(
        tmp_path / "t", task, labels_of(task), format=format
    )
    before = contents(teacher)
    flags = [*flags_of(script, data), *tiny_model_flags]
    taught = [f"--teacher={teacher}", f"{LOSSES}hidden_relations"]
    run(script, *flags, *taught, f"--output_dir={tmp_path / 'run'}")
    assert contents(teacher) == before
    lines = run_processes.log_lines(tmp_path / "run")
    assert lines
    for line in lines:
        parts = losses | RELATIONS
        assert {n for n in line if n.endswith("_loss")} == parts
        assert line["loss"] == pytest.approx(sum(line[n] for n in parts))

    # The checkpoints are those of the student alone.
    run(script, *flags, "--nodo_eval", f"--output_dir={tmp_path / 'alone'}")
    names = [
        {
            path.name: set(safetensors.numpy.load_file(path))
            for path in sorted((tmp_path / run).glob("checkpoints/*/*.saf*"))
        }
        for run in ("run", "alone")
    ]
    assert names[0] and names[0] == names[1]


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_a_student_starts_from_layers_of_its_teacher(
    data, tmp_path, tiny_model_flags
):
    teacher = write_teacher(tmp_path / "t", "classification", ["0", "1"])
    student = json_files.read(teacher / "bert_config.json")
    path, output = tmp_path / "bert_config.json", tmp_path / "run"
    json_files.write(str(path), student | {"num_hidden_layers": 2})
    words = [*flags_of(run_glue, data), tiny_model_flags[0]]
    words += [f"--bert_config_file={path}", f"--teacher={teacher}"]
    words += ["--init_from_teacher_layers=0,2", "--learning_rate=0"]
    run(run_glue, *words, f"--output_dir={output}")
    taught = safetensors.numpy.load_file(teacher / "model.safetensors")
    (last,) = output.glob("checkpoints/*/model.safetensors")
    for name, value in safetensors.numpy.load_file(last).items():
        source = name.replace("layer_1", "layer_2")
        assert value.tobytes() == taught[source].tobytes(), name


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pretraining_records):
    """Holds records, a config with dropout, and a teacher."""
    folder = tmp_path_factory.mktemp("kills")
    shutil.copytree(pretraining_records, folder, dirs_exist_ok=True)
    run_processes.write_config(folder)
    write_teacher(folder / "teacher", "pretraining")
    return folder


def start(folder, name, **values):
    settings = {
        "num_train_steps": 24,
        "save_checkpoints_steps": 4,
        "keep_checkpoint_max": 20,
        "gradient_accumulation_steps": 2,
        "steps_per_loop": 2,
        "teacher": folder / "teacher" / "ours",
        "distillation_losses": "soft_targets,attention_relations",
    }
    arguments = run_processes.training_arguments(
        folder, folder / name, **(settings | values)
    )
    return run_processes.training(
        arguments, folder / f"{name}.log", is_forked=True
    )


@pytest.mark.slow
def test_a_killed_run_equals_an_undisturbed_one(folder):
    with start(folder, "undisturbed") as process:
        assert process.wait() == 0, process.printed()
    run = folder / "run"
    with start(folder, "run") as process:
        process.wait_until(lambda: run_processes.last_step(run) >= 9)
        process.send(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, process.printed()
    assert 4 <= run_processes.saved_steps(run)[-1] < 24
    with start(folder, "run") as process:
        assert process.wait() == 0, process.printed()
    undisturbed, found = map(
        run_processes.results, (folder / "undisturbed", run)
    )
    assert undisturbed.keys() == found.keys()
    assert undisturbed == found


@pytest.mark.slow
def test_two_devices_have_the_losses_of_one(folder):
    lines = []
    replicas = {"distribution_strategy": "mirrored", "virtual_devices": 2}
    for name, more in (("plain", {}), ("mirrored", replicas)):
        more |= {"num_train_steps": 6, "num_warmup_steps": 1, "do_eval": False}
        with start(folder, name, **more) as process:
            assert process.wait() == 0, process.printed()
        lines.append(run_processes.log_lines(folder / name))
    assert len(lines[0]) == 6
    for expected, line in zip(*lines, strict=True):
        for name in ("masked_lm_soft_targets_loss", "attention_relations_loss"):
            assert line[name] == pytest.approx(expected[name], rel=1e-4), line
