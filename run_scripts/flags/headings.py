"""Flags of a script -> the same, under headings; the text of `--help`."""

import inspect
import re
import textwrap

from absl import flags

# Flags in commands of the script's docstring, required ones, and `COMMON`.
FIRST = "Set these first"
COMMON = (
    *("max_seq_length", "num_train_epochs", "num_train_steps"),
    *("train_batch_size", "learning_rate"),
)
# Heading of flags that are not listed below.
OTHER = "Other"
# Heading -> the flags of all scripts that belong under it.
HEADINGS = {
    "Data": (
        *("input_file", "input_format", "text_field", "language"),
        *("drop_duplicates", "held_out_prob", "eval_input_file", "corpus"),
        *("data_dir", "glue_dir", "task_name", "train_file", "dev_file"),
        *("test_file", "predict_file", "dev_share", "folds", "fold"),
        *("labels", "columns"),
        *("text_column", "label_column"),
        *("multi_label", "label_separator", "label_columns", "id_column"),
        *("weight_column", "group_column", "unlabelled_rows", "empty_rows"),
        "passages_per_query",
        *("test_has_tags", "word_column", "tag_column", "comment_prefix"),
        *("span_mismatch", "tag_scheme", "entity_types"),
        "version_2_with_negative",
        *("answer_alignment", "skip_misplaced_answers"),
        *("records", "num_records", "run_dirs", "data_file"),
        *("predictions_file", "na_prob_file", "corpus_file", "queries_file"),
        *("judgements_file", "corpus_columns", "query_column"),
        "vectors_file",
        *("score_column", "score_range", "dev_text_column"),
        "dev_score_column",
    ),
    "Vocabulary and length": (
        *("vocab_file", "do_lower_case", "strip_accents"),
        *("tokenize_chinese_chars", "vocab_size", "max_characters"),
        *("num_words", "words_file", "split_special_tokens"),
        *("max_seq_length", "max_query_length", "doc_stride", "long_text"),
        *("bucket_lengths", "max_position_embeddings"),
    ),
    "Masking and pairs": (
        *("masked_lm_prob", "max_predictions_per_seq", "masking"),
        "is_split_into_words",
        *("masking_time", "do_whole_word_mask", "max_ngram", "mask_mix"),
        *("pairs", "short_seq_prob", "dupe_factor", "max_examples_per_row"),
        *("random_seed", "compat"),
    ),
    "Model": (
        *("model", "model_dir", "from", "init_checkpoint"),
        *("bert_config_file", "bert_config_name", "hidden_act", "objective"),
        "masked_lm_candidates",
        *("lora_rank", "lora_targets", "normalize"),
    ),
    "Training": (
        *("do_train", "train_batch_size", "batch_size_ramp"),
        *("num_train_epochs", "num_train_steps", "train_hours", "phases"),
        *("stop_at_step", "learning_rate", "learning_rate_schedule"),
        *("num_warmup_steps", "warmup_proportion"),
        *("gradient_accumulation_steps", "dropout", "seed"),
        *("num_restarts", "search", "grid", "num_trials"),
        *("class_weights", "label_smoothing"),
        *("similarity_scale", "ranking_loss"),
    ),
    "Optimizer": (
        *("optimizer", "muon_learning_rate", "adam_beta_2"),
        *("correct_bias", "clip_norm", "ema_decay"),
    ),
    "Learning from a teacher": (
        *("teacher", "distillation_losses", "distillation_weight"),
        *("temperature", "init_from_teacher_layers"),
    ),
    "Evaluation and prediction": (
        *("do_eval", "do_predict", "eval_batch_size", "max_eval_steps"),
        *("best_metric", "threshold", "calibrate", "uncalibrated", "score"),
        *("eval_steps", "early_stopping_evaluations"),
        *("batch_size", "kind", "signature"),
        *("outputs", "explain", "layers", "pooling", "top_k", "prompt"),
        *("prompt_name", "query_prompt", "corpus_prompt", "similarity"),
        *("baselines", "within_word_masking", "min_probability"),
        *("n_best_size", "max_answer_length", "null_score_diff_threshold"),
    ),
    "Output": (
        *("output_dir", "output_file", "output_format", "export_dir"),
        *("dtype", "run_file"),
        *("overwrite", "records_dir", "num_shards", "page"),
        *("save_checkpoints_steps", "save_checkpoints_minutes"),
        *("keep_checkpoint_max", "log_every_steps", "license"),
    ),
    "Formats": (
        *("to", "format", "weights_dtype", "quantize", "half"),
        *("calibration_file", "report", "report_file"),
    ),
    "Checks": (
        *("doctor", "all", "allow_nan_weights"),
        "accept_tokenizer_differences",
    ),
    "Devices and machines": (
        *("precision", "jit_compile", "steps_per_loop", "remat"),
        *("use_one_hot_embeddings", "distribution_strategy", "tpu"),
        *("virtual_devices", "input_mode"),
        *("preemption_server", "num_replicas"),
        *("runner", "num_processes", "spark_master", "spark_conf"),
        *("host", "port", "allowed_hosts"),
    ),
    "Stores": ("cache_dir",),
}


def by_heading(
    values: flags.FlagValues, doc: str
) -> dict[str, list[flags.Flag]]:
    """Returns heading -> flags, each once; headings without flags are left out.

    Args:
      values: the script's flags.
      doc: the script's docstring.
    """
    first = [name for name in _commands(doc) if name in values]
    first += [name for name in values if is_required(values[name])]
    first += [name for name in COMMON if name in values]
    headings = {FIRST: first} | HEADINGS
    found, rest = {}, dict.fromkeys(values)
    for heading, names in headings.items():
        names = [name for name in dict.fromkeys(names) if name in rest]
        found[heading] = [values[name] for name in names]
        rest = {name: None for name in rest if name not in names}
    found[OTHER] = [values[name] for name in rest]
    return {heading: group for heading, group in found.items() if group}


def is_required(flag: flags.Flag) -> bool:
    """Returns whether `common_flags.require` was called for a flag."""
    return any("is required" in v.message for v in flag.validators)


def _commands(doc: str) -> list[str]:
    """Returns the names of the flags in the commands of a docstring."""
    commands = inspect.cleandoc(doc).split("python -m ")[1:]
    blocks = (command.partition("\n\n")[0] for command in commands)
    return re.findall(r"--(\w+)", "\n".join(blocks))


def help_text(values: flags.FlagValues, doc: str) -> str:
    """Returns the text of `--help`: docstring, table, flags under headings."""
    grouped = by_heading(values, doc)
    parts = [inspect.cleandoc(doc)]
    if FIRST in grouped:
        parts.append(f"\n{_table(grouped[FIRST])}")
    for heading, group in grouped.items():
        shown = flags.FlagValues()
        for flag in group:
            shown[flag.name] = flag
            shown.register_flag_by_module(heading, flag)
        parts.append(shown.module_help(heading))
    # Every script has --flagfile and --undefok, which no flags list.
    parts.append(f"\nFiles of flags:\n{flags.FlagValues().get_help()}")
    return "\n".join(parts)


def _table(group: list[flags.Flag]) -> str:
    """Returns a line for each flag: name, default, start of its help."""
    rows = [("flag", "default", "in full below, with all others")]
    for flag in group:
        # absl's enumerations begin with "<a|b>: ".
        text = re.sub(r"^<[^>]*>: ", "", " ".join(flag.help.split()))
        stated = re.search(r"Default: (\S{1,12})\.(?: |$)", text)
        default = stated[1] if stated else ""
        if is_required(flag):
            default = "required"
        elif flag.default is not None:
            default = flag.serialize().partition("=")[2] or default
            default = "false" if flag.default is False else default
        first = re.split(r"[:;.](?: |$)", text)[0]
        rows.append((f"--{flag.name}", default, first))
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    return "\n".join(
        f"{name:{widths[0]}}  {default:{widths[1]}}  "
        + textwrap.shorten(text, 75 - sum(widths), placeholder=" ...")
        for name, default, text in rows
    )
