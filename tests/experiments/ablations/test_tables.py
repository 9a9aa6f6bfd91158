import pytest

from experiments.ablations import tables
from experiments.ablations.tables import Model

BASE = Model(12, 768, 12)


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        (BASE, "3-768-12 6-768-3 6-768-12 12-768-12 12-1024-16 24-1024-16"),
        (Model(4, 128, 4), "1-128-4 2-128-1 2-128-4 4-128-4 4-160-5 8-160-5"),
    ],
)
def test_sizes_are_those_of_the_paper_for_its_base(base, expected):
    sizes = [
        f"{m.num_hidden_layers}-{m.hidden_size}-{m.num_attention_heads}"
        for m in tables.sizes(base)
    ]
    assert sizes == expected.split()


@pytest.mark.parametrize(("layers", "heads"), [(2, 2), (1, 4), (4, 1)])
def test_bases_too_small_for_six_sizes_are_refused(layers, heads):
    base = Model(layers, 64, heads)
    with pytest.raises(
        ValueError,
        match=f"--num_hidden_layers={layers} --num_attention_heads={heads}: "
        "table 6 .*at least 3 layers and 2 heads",
    ):
        tables.make(["5", "6"], base, 2)
    assert tables.make(["5", "8", "figure5"], base, 2)


def test_sizes_differ_from_three_layers_and_two_heads_on():
    for layers in range(3, 26):
        for heads in range(2, 26):
            for head_size in (1, 3, 64):
                base = Model(layers, heads * head_size, heads)
                models = tables.sizes(base)
                assert len({model.size for model in models}) == 6
                for model in models:
                    assert model.hidden_size % model.num_attention_heads == 0


def test_tables_share_their_models():
    rows = tables.make(list(tables.TABLES), BASE, 5)
    models = {row.model for row in rows if row.model}
    # base, no pairs, left-to-right; five other sizes; five other mixes.
    assert len(models) == len({model.name for model in models}) == 13
    of_base = {row.table for row in rows if row.model == BASE}
    assert of_base == {"5", "6", "figure5"}
    # Mixes are compared on single segments.
    assert {m.pairs for m in models if m.mask_mix != tables.MIX} == {"none"}
    mixes = [row.model.mask_mix for row in rows if row.table == "8"]
    assert [sum(mix) for mix in mixes] == [100] * 6
    (no_pairs,) = (row.model for row in rows if row.label == tables.NO_PAIRS)
    assert no_pairs in {row.model for row in rows if row.table == "8"}


def test_rows_differ_in_model_bilstm_and_share_of_the_steps():
    rows = tables.make(list(tables.TABLES), BASE, 2)
    by_label = {(row.table, row.label): row for row in rows}
    ltr = by_label["5", tables.LTR]
    with_lstm = by_label["5", tables.LTR_BILSTM]
    assert with_lstm.has_bilstm and with_lstm.model == ltr.model
    assert ltr.model.is_causal and not ltr.has_bilstm
    points = [row for row in rows if row.table == "figure5"]
    assert [row.share for row in points] == [0.5, 1.0, 0.5, 1.0]
    assert by_label["5", tables.FROM_SCRATCH].model is None
    # Other numbers of the paper are in a report.
    masks_alone = by_label["8", "100 % [MASK], 0 % same, 0 % random"]
    assert masks_alone.paper["NER, feature-based"] == 94.0


def test_unknown_tables_are_refused():
    with pytest.raises(ValueError, match="--tables=5,9 should name some of 5"):
        tables.make(["5", "9"], BASE, 1)
