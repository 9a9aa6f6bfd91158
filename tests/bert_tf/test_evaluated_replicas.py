"""The same evaluation and predictions on one device, two, and two workers.

Files are compared byte by byte: each replica computes whole batches.
"""

import json
import shutil
import signal

import planted_squad
import pytest
import run_processes

pytestmark = pytest.mark.slow
# Name -> worker processes, flags.
REPLICAS = {
    "one": (1, []),
    "mirrored": (
        1,
        ["--distribution_strategy=mirrored", "--virtual_devices=2"],
    ),
    "workers": (2, []),
}
WORDS = "the old captain sat near a ship . the crew was not there ,".split()


@pytest.fixture(scope="module")
def model_flags(tmp_path_factory):
    """Flags of a run from scratch with one layer."""
    folder = tmp_path_factory.mktemp("config")
    run_processes.write_config(folder)
    return [
        f"--vocab_file={run_processes.VOCAB_FILE}",
        f"--bert_config_file={folder / 'bert_config.json'}",
    ]


def run(script, flags, output, num_workers=1):
    """Runs a script in each worker process."""
    logs = [output.with_suffix(f".{i}.log") for i in range(num_workers)]
    with run_processes.workers(
        [*flags, f"--output_dir={output}"],
        logs,
        is_forked=True,
        script=f"run_scripts.{script}",
    ) as processes:
        codes = [process.wait(600.0) for process in processes]
        printed = [process.printed() for process in processes]
    assert not any(codes), "\n".join(printed)


def files_on_replicas(script, flags, folder):
    """Returns name -> content of all results, the same on all replicas."""
    found = {}
    for name, (num_workers, more) in REPLICAS.items():
        output = folder / name
        run(script, [*flags, *more], output, num_workers)
        paths = [output / "eval_results.json", *output.glob("predictions/*")]
        found[name] = {path.name: path.read_bytes() for path in paths}
    assert found["mirrored"] == found["one"]
    assert found["workers"] == found["one"]
    return found["one"]


def test_held_out_metrics_are_the_same_bytes(tmp_path, pretraining_records):
    run_processes.write_config(tmp_path)
    flags = run_processes.training_arguments(
        pretraining_records,
        tmp_path / "model",
        bert_config_file=tmp_path / "bert_config.json",
        num_train_steps=4,
        num_warmup_steps=2,
    )
    run("run_pretraining", [*flags, "--do_eval=false"], tmp_path / "model")
    # 16 batches of one row for each replica would hide a missing one.
    flags = [*flags, "--do_train=false", "--eval_batch_size=3"]
    flags.append(f"--init_checkpoint={tmp_path / 'model'}")
    for more in ([], ["--max_eval_steps=3"]):
        folder = tmp_path / f"evaluated{len(more)}"
        folder.mkdir()
        files = files_on_replicas("run_pretraining", [*flags, *more], folder)
        metrics = json.loads(files["eval_results.json"])
        assert metrics["step"] == 4 and metrics["masked_lm_loss"] > 0


def test_a_worker_lost_in_an_evaluation_stops_the_others(
    tmp_path, pretraining_records
):
    run_processes.write_config(tmp_path)
    arguments = run_processes.training_arguments(
        pretraining_records,
        tmp_path / "run",
        bert_config_file=tmp_path / "bert_config.json",
        eval_input_file=pretraining_records / "train",
        eval_batch_size=1,
        num_train_steps=1000,
        save_checkpoints_steps=4,
    )
    logs = [tmp_path / "0.log", tmp_path / "1.log"]
    with run_processes.workers(arguments, logs, is_forked=True) as processes:
        chief, other = processes
        # An evaluation follows.
        assert chief.wait_until(
            lambda: 4 in run_processes.saved_steps(tmp_path / "run"), 300.0
        )
        other.send(signal.SIGKILL)
        assert chief.wait(120.0) == 75, chief.printed()
        assert "another worker has ended" in chief.printed()
        # The evaluation did not end, and no step followed it.
        assert "held out, step 4" not in chief.printed()
        assert max(run_processes.saved_steps(tmp_path / "run")) == 4


@pytest.fixture(scope="module")
def sts_b_flags(tmp_path_factory, model_flags):
    """Flags of run_glue on pairs of texts of several lengths with scores."""
    folder = tmp_path_factory.mktemp("sts-b")
    for split, count in (("train", 24), ("dev", 13), ("test", 11)):
        lines = ["index\tsentence1\tsentence2" + "\tscore" * (split != "test")]
        for n in range(count):
            first, second = WORDS[n % 5 : n % 9 + 2], WORDS[: n % 6 + 1]
            cells = [str(n), " ".join(first), " ".join(second)]
            cells += [str(n % 6)] * (split != "test")
            lines.append("\t".join(cells))
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return [
        *model_flags,
        "--task_name=STS-B",
        f"--data_dir={folder}",
        "--max_seq_length=16",
        "--train_batch_size=8",
        "--eval_batch_size=3",
        "--learning_rate=1e-3",
        "--num_train_epochs=2",
        "--bucket_lengths=8,12",
        "--do_eval",
        "--do_predict",
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, sts_b_flags):
    """Folder of a run on one device."""
    output = tmp_path_factory.mktemp("trained") / "one"
    run("run_glue", [*sts_b_flags, "--do_train"], output)
    return output


def test_glue_files_are_the_same_bytes(tmp_path, sts_b_flags, trained):
    flags = [*sts_b_flags, f"--init_checkpoint={trained}"]
    files = files_on_replicas("run_glue", flags, tmp_path)
    assert len(files["STS-B.tsv"].splitlines()) == 12
    # The model in training was evaluated with the same result.
    results = json.loads((trained / "eval_results.json").read_text())
    assert results["dev"] == json.loads(files["eval_results.json"])["dev"]


def test_two_workers_train_evaluate_and_keep_the_best(
    tmp_path, sts_b_flags, trained
):
    flags = [*sts_b_flags, "--do_train"]
    run("run_glue", flags, tmp_path / "workers", 2)
    results = []
    for output in (trained, tmp_path / "workers"):
        results.append(json.loads((output / "eval_results.json").read_text()))
        best = json.loads((output / "best/state.json").read_text())
        assert best["value"] == results[-1]["dev"][best["metric"]]
        assert (output / "predictions" / "STS-B.tsv").exists()
        lines = (output / "logs/dev/steps.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [3, 6]
        assert json.loads((output / "logs/evaluated.json").read_text()) == {
            "step": 6
        }
    one, workers = results
    assert workers["dev"]["loss"] == pytest.approx(one["dev"]["loss"], rel=1e-4)
    # The same command again evaluates the finished run.
    shutil.rmtree(output / "predictions")
    run("run_glue", flags, output, 2)
    again = json.loads((output / "eval_results.json").read_text())
    assert again == workers
    assert (output / "predictions" / "STS-B.tsv").exists()


def test_squad_files_are_the_same_bytes(tmp_path, model_flags):
    paragraphs = []
    for number in range(9):
        words = [
            WORDS[(number + i * (number + 3)) % len(WORDS)] for i in range(40)
        ]
        text, answer = " ".join(words), " ".join(words[number : number + 2])
        questions = [
            planted_squad.question(
                f"{number} a",
                f"where was {answer} ?",
                text,
                answer,
                is_impossible=False,
            ),
            planted_squad.question(
                f"{number} b", "the sea ?", text, is_impossible=True
            ),
        ]
        paragraphs.append((text, questions))
    content = planted_squad.article(*paragraphs, version="v2.0")
    for split in ("train", "dev"):
        path = tmp_path / f"{split}-v2.0.json"
        path.write_text(json.dumps(content), encoding="utf-8")
    flags = [
        *model_flags,
        f"--data_dir={tmp_path}",
        "--version_2_with_negative",
        "--max_seq_length=24",
        "--doc_stride=7",
        "--max_query_length=5",
        "--max_answer_length=4",
        "--train_batch_size=8",
        "--eval_batch_size=7",
        "--learning_rate=1e-2",
        "--num_train_epochs=2",
        "--do_eval",
        "--do_predict",
    ]
    run("run_squad", [*flags, "--do_train"], tmp_path / "model")
    flags.append(f"--init_checkpoint={tmp_path / 'model'}")
    files = files_on_replicas("run_squad", flags, tmp_path)
    assert {"predictions.json", "nbest_predictions.json"} <= files.keys()
    assert len(json.loads(files["predictions.json"])) == 18
