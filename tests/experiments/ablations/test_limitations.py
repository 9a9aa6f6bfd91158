import pytest
from ablation_examples import TASKS, make_settings

from experiments.ablations import limitations, tables

ALL = tuple(tables.TABLES)
DIFFERENCES = {
    "- Left-to-right models classify by their last token": ("5", "figure5"),
    "- Models without next sentence prediction, ": ("5", "8", "figure5"),
    "- The models of table 8 are pre-trained without next ": ("8",),
    "- Feature-based NER uses `last`, ": ("8",),
    "- The BiLSTM of feature-based NER has 64 units": ("8",),
    "- Masks differ each time that a text is read, hide 25 % of ": ALL,
    "- Optimizer and schedule are those of `budget_cpu.flags`: ": ALL,
    "at 1.5e-3 with beta_2 = 0.98; both rates rise for 25 % of the steps, and "
    "then fall linearly to 0. ": ALL,
    "In fine-tuning the rate is 0.0001, ": ALL,
    "start with a standard deviation of 0.0791; ": ALL,
}


@pytest.mark.parametrize("table", list(tables.TABLES))
def test_differences_from_the_paper_are_listed_where_they_apply(table):
    settings = make_settings("runs", num_hidden_layers=3)
    rows = tables.make([table], settings.base, 2)
    text = "\n".join(limitations.differences(rows, TASKS, settings))
    for line, names in DIFFERENCES.items():
        assert (line in text) == (table in names), line


def test_features_do_not_differ_at_the_size_of_the_paper():
    size = dict(num_hidden_layers=12, hidden_size=768, num_attention_heads=12)
    settings = make_settings("runs", **size)
    rows = tables.make(["8"], settings.base, 2)
    text = "\n".join(limitations.differences(rows, TASKS, settings))
    assert "feature-based" not in text.lower()


def test_the_scale_is_computed_from_the_settings():
    settings = make_settings("runs", max_train_examples=5000, num_seeds=3)
    text = "\n".join(limitations.scale(settings))
    # 100 steps of 16 x 32 tokens.
    assert "reads 100 batches of 16 x 32 tokens, 51,200 in total" in text
    assert "The base model is L-4_H-64_A-4 with 500 entries" in text
    assert "fine-tuning: 3, and at most 5,000 examples; a score is that" in text
    assert "Each row was run with 3 seeds, from pre-training on; scores" in text
    text = "\n".join(limitations.scale(make_settings("runs")))
    assert "Each row was run with one seed, so that the standard error" in text
