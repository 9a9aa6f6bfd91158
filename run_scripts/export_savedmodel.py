r"""Trained model folder -> SavedModel that takes raw strings, or other format.

    python -m run_scripts.export_savedmodel \
      --model_dir=runs/sst2 --export_dir=exports/sst2

Tokenizer and vocabulary are inside; a client needs TensorFlow and
tensorflow_text. Its signature `serving_default` maps

    classification      text_a, text_b -> label, probabilities, logits
    multi_label         text_a, text_b -> labels, probabilities, logits
    regression          text_a, text_b -> score
    ranking             query, passages -> ranked, scores, order
    question_answering  question, context -> answer, start, end, nbest_answers
    tagging             text -> words, tags, starts, ends, probabilities
    multiple_choice     context, endings -> choice, ending, probabilities
    fill_mask           text with [MASK] in it -> tokens, probabilities
    pseudo_log_likelihood  text -> score, tokens, log_probabilities
    token_vectors       text -> words, starts, ends, vectors
    sentence_embedding  text -> embedding
    encoder             input_word_ids, input_mask, input_type_ids ->
                        sequence_output, pooled_output, encoder_outputs_0, ...
    preprocessor        text_a, text_b -> inputs of encoder; has no weights

A model that was trained on single texts has no text_b.

Every model can be exported as the last four. Every export of a model has a
signature `encoder`, with the inputs in its row; that of `--kind=encoder` has
`text` as well, for strings. A tagger has the signature `words`, for text that
is already split into words. `classify` and `regress`
serve TensorFlow Serving's APIs of these names. With TensorFlow Serving or
`loaded.text(...)`, `text_b` may be omitted; `loaded.signatures[...]` in Python
needs it, at least as an empty list, `[]`.

The export also has requests with which TensorFlow Serving warms up, and a model
card, README.md, of what the model's folder records of data and scores.

With --format, the model is one for a process without TensorFlow instead. It
takes token ids; a tokenizer in plain Python and a script that answers texts are
copied beside it:

    python -m run_scripts.export_savedmodel --format=onnx \
      --model_dir=runs/sst2 --export_dir=exports/sst2-onnx
    echo "a fine film" | python exports/sst2-onnx/predict.py

--format=hugging_face_onnx writes a folder of Hugging Face with onnx/model.onnx,
which transformers.js, sentence-transformers, optimum and fastembed open; --half
and --quantize=dynamic add onnx/model_fp16.onnx and onnx/model_quantized.onnx.
"""

from bert_tf.contrib.runtimes import config
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(config.RuntimeConfig)


def main(argv: list[str]) -> None:
    """Exports the model."""
    common_flags.parse(FLAGS, argv, __doc__)
    settings = common_flags.config(config.RuntimeConfig, FLAGS)
    if settings.format == config.SAVED_MODEL:
        from bert_tf.serving import export_model

        export_model.export(settings)
        return
    from bert_tf.contrib.runtimes import export_network

    export_network.export(settings)


run = common_flags.command(main)

if __name__ == "__main__":
    run()
