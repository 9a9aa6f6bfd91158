r"""Pre-training records -> a pre-trained model, held-out metrics.

    python -m run_scripts.run_pretraining \
      --input_file=records/train --eval_input_file=records/held_out \
      --vocab_file=vocab.txt --bert_config_name=tiny \
      --output_dir=runs/tiny --num_train_steps=10000 --num_warmup_steps=1000

After an interruption, the same command resumes from the last checkpoint.
"""

from bert_tf.workflows.pretraining.config import PretrainingConfig
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(PretrainingConfig)


def main(argv: list[str]) -> None:
    """Trains and evaluates."""
    common_flags.parse(FLAGS, argv, __doc__)
    config = common_flags.config(PretrainingConfig, FLAGS)

    from bert_tf.workflows.pretraining.run import pretrain

    pretrain(config)


run = common_flags.command(main)

if __name__ == "__main__":
    run()
