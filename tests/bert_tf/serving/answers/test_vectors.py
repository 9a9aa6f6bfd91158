"""vectors.py: prompts before texts, and a signature for each.

Other promises of vectors are in tests/contracts/test_answers.py.
"""

import json

import exports
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.serving.answers import vectors
from run_scripts import predict

TEXTS = ["", "cat sat on the warm stone", "a ship " * 20]
PROMPTS = exports.PROMPTS["prompts"]
SETTINGS = exports.SETTINGS["sentence_embedding"]


@pytest.fixture(scope="module")
def predictor(made_once):
    """Prompt's name -> Predictor of the model of `exports`."""
    folder = exports.model_folder(made_once, "sentence_embedding")
    return lambda name: bert_tf.Predictor(folder, prompt_name=name, **SETTINGS)


@pytest.fixture(scope="module")
def plain(predictor):
    """Vectors of texts that have their prompt in them."""
    without = predictor("")
    return lambda prompt: without([prompt + text for text in TEXTS])


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("name", [None, "", *PROMPTS])
def test_vectors_are_of_the_text_after_the_prompt(predictor, plain, name):
    embed = predictor(name)
    prompt = PROMPTS["query"] if name is None else PROMPTS.get(name, "")
    assert embed.answers.prompt == prompt
    np.testing.assert_allclose(embed(TEXTS), plain(prompt), **exports.ROUNDING)


@pytest.mark.usefixtures("eagerly")
def test_each_prompt_has_a_signature_whichever_was_chosen(predictor, plain):
    names = {"query": "query", "a passage": "a_passage", "text": "prompt_text"}
    texts = tf.constant(TEXTS)
    for chosen in (None, "", "a passage"):
        answers = predictor(chosen).answers
        signatures, parts = answers.make_signatures()
        assert [*signatures] == ["text", *names.values()]
        counts = parts["num_tokens"](text=texts).numpy()
        for name, signature in names.items():
            np.testing.assert_allclose(
                signatures[signature](texts)["embedding"],
                plain(PROMPTS[name]),
                **exports.ROUNDING,
            )
            more = parts[f"num_tokens_{signature}"](text=texts).numpy()
            if PROMPTS[name] == answers.prompt:
                np.testing.assert_array_equal(more, counts)
    # "old bread:" is three tokens; [CLS] alone for no text.
    assert counts[0] == 5


def test_names_of_signatures_are_different_and_take_no_other():
    prompts = ["query", "a b", "a-b", "", "_x", "encoder", "save", "classify"]
    assert [*vectors._signature_names(dict.fromkeys(prompts)).values()] == [
        *("query", "a_b", "a_b_", "prompt_", "prompt__x"),
        *("prompt_encoder", "prompt_save", "prompt_classify"),
    ]


def test_a_model_without_prompts_has_its_signatures_alone(made_once):
    folder = exports.model_folder(made_once, "fill_mask")
    embed = bert_tf.Predictor(folder, kind="sentence_embedding")
    assert [*embed.signatures] == ["text"]
    assert embed.answers.settings().keys() == {"sentence_embedding"}
    settings = {"kind": "sentence_embedding", "prompt_name": "query"}
    with pytest.raises(ValueError, match="=query: the model has no prompts"):
        bert_tf.Predictor(folder, **settings)


def test_an_unknown_prompt_is_refused(predictor):
    message = "name=queri: the model has the prompts 'query', 'a passage', 'te"
    with pytest.raises(ValueError, match=message):
        predictor("queri")


@pytest.mark.parametrize(
    ("chosen", "prompts", "name", "found"),
    [
        ("q: ", {"query": "q: "}, "query", ("query", "q: ")),
        ("", {"query": "q: "}, "", ("text", "")),
        ("q: ", {"query": "q: ", "none": ""}, "", ("none", "")),
        ("q: ", {"query": "q: "}, "", "each text, `text` 'q: '. Export the"),
        ("q: ", {"query": "q: "}, "x", "the model has the prompts 'query'"),
        (None, None, "x", "the model has no prompts"),
    ],
)
def test_an_export_has_a_signature_for_a_prompt(chosen, prompts, name, found):
    metadata = {"prompts": prompts, "prompt": chosen}
    if isinstance(found, tuple):
        assert vectors.find_signature(metadata, name) == found
        return
    with pytest.raises(ValueError) as raised:
        vectors.find_signature(metadata, name)
    assert found in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", [None, "a passage"])
def test_predict_calls_the_signature_of_a_prompt(
    made_once, plain, tmp_path, caplog, name
):
    caplog.set_level("WARNING", logger="absl")
    export = exports.write_kind(made_once, "sentence_embedding")
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": x}) + "\n" for x in TEXTS))
    words = [] if name is None else [f"--prompt_name={name}"]
    predict.main(
        [
            *("predict", f"--export_dir={export}", *words),
            *(f"--input_file={rows}", f"--output_file={tmp_path / 'out'}"),
        ]
    )
    lines = (tmp_path / "out").read_text().splitlines()
    prompt = PROMPTS[name or "query"]
    np.testing.assert_allclose(
        [json.loads(line)["embedding"] for line in lines],
        plain(prompt),
        **exports.ROUNDING,
    )
    assert "1 of 3 texts have more than max_seq_length=16" in caplog.text


@pytest.mark.slow
def test_predict_py_puts_the_prompt_before_texts(made_once, plain):
    shipped = exports.ship(made_once, "sentence_embedding", "onnx")
    lines = "".join(json.dumps({"text": x}) + "\n" for x in TEXTS).encode()
    for name in (None, "", *PROMPTS):
        words = [] if name is None else [f"--prompt_name={name}"]
        process = shipped.run(lines, *words)
        prompt = PROMPTS["query"] if name is None else PROMPTS.get(name, "")
        np.testing.assert_allclose(
            [json.loads(x)["embedding"] for x in process.stdout.splitlines()],
            plain(prompt),
            atol=2e-5,
        )
    process = shipped.run(lines, "--prompt_name=x")
    assert b"'query', 'a passage', 'text'. Give one" in process.stderr
