"""Unknown flag, flags of a script -> the message that names ours."""

from absl import flags

# Flags of google-research/bert that scripts here lack -> ours; "": none.
_COUNTERPARTS = {
    "iterations_per_loop": "steps_per_loop",
    "predict_batch_size": "eval_batch_size",
    "output_file": "output_dir",
    "use_tpu": "distribution_strategy=tpu",
    "tpu_name": "tpu",
    "tpu_zone": "",
    "gcp_project": "",
    "master": "",
    "num_tpu_cores": "",
    "verbose_logging": "",
    "use_one_hot_embeddings": "",
    "bert_config_file": "",
}
# Our flag -> its names in scripts of Hugging Face and others. A name stands for
# the first flag here that the command has.
NAMES_ELSEWHERE = {
    "batch_size": "per_device_eval_batch_size",
    "bert_config_file": "config_name",
    "best_metric": "metric_for_best_model",
    "clip_norm": "max_grad_norm",
    "dev_file": "dev_csv eval_data eval_file valid_file validation_file",
    "do_lower_case": "lowercase uncased",
    "eval_batch_size": "per_device_eval_batch_size",
    "init_checkpoint": "model model_name model_name_or_path pretrained",
    "jit_compile": "torch_compile xla",
    "keep_checkpoint_max": "save_total_limit",
    "label_column": "label label_column_name",
    "label_smoothing": "label_smoothing_factor",
    "labels": "label_names",
    "learning_rate": "lr",
    "learning_rate_schedule": "lr_scheduler_type",
    "log_every_steps": "logging_steps",
    "masked_lm_prob": "mlm_probability",
    "max_seq_length": "max_len max_length max_seq_len",
    "model_dir": "model model_name model_name_or_path",
    "num_train_epochs": "epochs max_steps n_epochs num_epochs",
    "num_train_steps": "epochs max_steps num_epochs num_train_epochs",
    "num_warmup_steps": "warmup_ratio warmup_steps",
    "precision": "bf16 fp16 mixed_precision",
    "random_seed": "seed",
    "remat": "gradient_checkpointing",
    "save_checkpoints_steps": "save_steps",
    "seed": "random_seed random_state",
    "test_file": "test_csv test_data",
    "text_column": "text text_column_name",
    "text_field": "text text_column_name",
    "train_batch_size": "batch_size per_device_train_batch_size",
    "train_file": "train_csv train_data train_dataset",
    "vocab_file": "tokenizer_name vocab",
    "warmup_proportion": "warmup_ratio warmup_steps",
    # Last: the flags above say more of a command that has both.
    "input_file": "input test_csv test_data test_file train_csv train_data",
    "output_dir": "output",
    "output_file": "output output_dir",
    "export_dir": "output output_dir",
}
# Flags of other commands or of the original -> what to use instead.
_ELSEWHERE = {
    "adam_beta_1": "Adam's first decay rate is 0.9.",
    "adam_beta_2": "run_pretraining has it; fine-tuning uses 0.999.",
    "adam_epsilon": "Adam's epsilon is 1e-6.",
    "ema_decay": "run_pretraining has it.",
    "lora_alpha": "It is the rank; in Python, encoder.enable_lora takes it.",
    "muon_learning_rate": "run_pretraining has it.",
    "na_prob_thresh": "score_squad has the best threshold in its scores.",
    "optimizer": "run_pretraining has it; fine-tuning uses AdamW.",
    "passages_per_query": "There is a command for it: run_ranking.",
    "ranking_loss": "There is a command for it: run_ranking.",
    "weight_decay_rate": "Weights decay with a rate of 0.01.",
}


def explain(
    error: flags.UnrecognizedFlagError, values: flags.FlagValues
) -> str:
    """Returns the message for an unknown flag, with our name for another's."""
    name = error.flagname
    is_off = name not in _COUNTERPARTS and name.startswith("no")  # --nouse_tpu
    if is_off:
        name = name.removeprefix("no")
    if advice := _ELSEWHERE.get(name, ""):  # Without absl's guess.
        return (
            f"Unknown command line flag {error.flagname!r}: this command does "
            f"not have it. {advice}"
        )
    word = name.replace("-", "_")
    for ours, names in NAMES_ELSEWHERE.items():
        if ours in values and word in names.split():
            return (
                f"Unknown command line flag {error.flagname!r}: did you mean "
                f"--{ours}?"
            )
    if name not in _COUNTERPARTS:
        return str(error)
    is_off = is_off or str(error.flagvalue).lower().endswith("=false")
    ours = "" if is_off else _COUNTERPARTS[name]
    has_ours = ours.partition("=")[0] in values
    return (
        f"Unknown command line flag {error.flagname!r}: --{name} of "
        "google-research/bert "
        + (f"is --{ours} here." if has_ours else "is not needed here. Omit it.")
    )
