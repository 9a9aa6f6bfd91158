r"""Folder of a model -> a page on this machine that asks the model.

    python -m run_scripts.explore --model=runs/sst-2

Then open http://127.0.0.1:7860. What the page has depends on the model: fill
the mask, classify with attributions of words, answer a question, mark entities,
choose an ending; and for each model, compare two texts and draw the attention
of each layer and head. It needs Gradio, which is in the extra `explore`: pip
install 'bert_tf[explore]'.
"""

import dataclasses

from bert_tf.checkpoint.options import CheckpointOptions
from run_scripts.flags import common_flags
from tfrecords.options import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExploreConfig(CheckpointOptions):
    """Which model to show, and where."""

    model: str = option(
        REQUIRED,
        "Folder of a run or model, or a checkpoint of any format that "
        "convert_checkpoint reads.",
        reads=True,
    )
    port: int = option(7860, "Port of the page.", at_least=1, at_most=65535)
    allowed_hosts: tuple[str, ...] = option(
        (),
        "Names of the page besides those of this machine, such as that of a "
        "proxy: box.example,10.0.0.7. Requests for others are refused.",
    )
    host: str = option(
        "127.0.0.1",
        "Address to listen on. The default can be reached only from this "
        "machine, 0.0.0.0 from all in its network, without a password.",
    )


FLAGS = common_flags.make_flags(ExploreConfig)


def main(argv: list[str]) -> None:
    """Shows the page until a signal stops the process."""
    common_flags.parse(FLAGS, argv, __doc__)
    config = common_flags.config(ExploreConfig, FLAGS)

    from bert_tf.contrib.apps.page import explorer

    explorer.explore(
        config.model,
        config.host,
        config.port,
        config.allowed_hosts,
        accept_tokenizer_differences=config.accept_tokenizer_differences,
    )


run = common_flags.command(main)

if __name__ == "__main__":
    run()
