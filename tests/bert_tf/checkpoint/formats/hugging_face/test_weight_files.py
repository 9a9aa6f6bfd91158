import json

import h5py
import ml_dtypes
import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from bert_tf.checkpoint import detection
from bert_tf.checkpoint.formats.hugging_face import weight_files

TENSORS = {
    name: np.arange(i, i + 4, dtype=np.float32).reshape(2, 2)
    for i, name in enumerate("abc")
}


INDEX = "model.safetensors.index.json"


def put_shards(folder, shards):
    """Writes `shards`, name -> names of tensors, and their index."""
    weight_map = {t: shard for shard, names in shards.items() for t in names}
    for shard, names in shards.items():
        safetensors_numpy.save_file(
            {name: TENSORS[name] for name in names}, folder / shard
        )
    content = json.dumps({"metadata": {}, "weight_map": weight_map})
    (folder / INDEX).write_text(content)


SHARDS = {
    "model-00001-of-00002.safetensors": ["a", "c"],
    "model-00002-of-00002.safetensors": ["b"],
}


def assert_all(found):
    assert set(found) == set(TENSORS)
    for name, tensor in TENSORS.items():
        np.testing.assert_array_equal(found[name], tensor)


def test_all_shards_are_read(tmp_path):
    put_shards(tmp_path, SHARDS)
    assert detection.is_hugging_face(str(tmp_path))
    assert_all(weight_files.read(str(tmp_path)))


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (
            SHARDS,
            "index.json lists 2 shards; 2 of them are missing: "
            "model-00001-of-00002.safetensors, model-00002-of-00002.safetensor",
        ),
        ([INDEX], f"but no {INDEX}"),
    ],
)
def test_missing_files_are_all_named(tmp_path, missing, message):
    put_shards(tmp_path, SHARDS)
    for name in missing:
        (tmp_path / name).unlink()
    assert detection.is_hugging_face(str(tmp_path))
    with pytest.raises(ValueError, match=message):
        weight_files.read(str(tmp_path))


def test_a_shard_that_lacks_a_tensor_is_named(tmp_path):
    put_shards(tmp_path, SHARDS)
    (name, _), *_ = SHARDS.items()
    safetensors_numpy.save_file({"a": TENSORS["a"]}, tmp_path / name)
    with pytest.raises(ValueError, match=f"{name} lacks .* for it: c"):
        weight_files.read(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], r"the content is \[\]; it should be an object"),
        ({"weight_map": {}}, "weight_map lists no tensor. Copy it"),
        ({"weight_map": {"a": "../other.safetensors"}}, "in the same folder"),
        ({"weight_map": {"a": 1}}, "weight_map.a is 1; it should be a string"),
    ],
)
def test_an_invalid_index_is_refused(tmp_path, content, message):
    (tmp_path / INDEX).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        weight_files.read(str(tmp_path))


def test_a_single_file_is_preferred_to_shards_and_pickles(tmp_path):
    put_shards(tmp_path, {"model-00001-of-00001.safetensors": ["a"]})
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    weight_files.write(TENSORS, str(tmp_path))
    assert_all(weight_files.read(str(tmp_path)))


def test_a_git_lfs_pointer_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:1\n"
    )
    with pytest.raises(ValueError, match=f"{path} is a Git LFS pointer"):
        weight_files.read(str(tmp_path))


def test_weights_of_other_frameworks_are_named(tmp_path):
    assert not detection.is_hugging_face(str(tmp_path))
    with pytest.raises(ValueError, match="It contains no files. Copy the"):
        weight_files.read(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("adapter_config.json", "an adapter of PEFT.*merge_and_unload"),
        ("zero_to_fp32.py", "a checkpoint of DeepSpeed: run `python zero_to"),
        ("__0_0.distcp", "torch.distributed: run .* dcp_to_torch . pytorch_mo"),
        ("pytorch_model_fsdp_0", "FSDP: `accelerate merge-weights` makes"),
        ("last.ckpt", "PyTorch Lightning, .*: load it in the class"),
        ("bert-q8_0.gguf", "a file of llama.cpp: give the folder that"),
        ("model.onnx", "an exported network: give the folder that"),
        ("onnx", "a folder with an exported network"),
        ("openvino_model.xml", "an exported network"),
        ("flax_model.msgpack", "a file of Flax: save the model as safetensors"),
        ("model.keras", "Keras: import bert_tf, and load it with keras.models"),
        ("all.weights.h5", "a file of weights of Keras.* load_weights"),
        ("model.pt", "a pickle of PyTorch: load it in the class"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, message):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match=f"{name} is .*{message}"):
        weight_files.read(str(tmp_path))
    # Without a config.json, and given itself.
    (tmp_path / "config.json").unlink()
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(ValueError, match=f"{name} is .*{message}"):
            detection.detect(str(path))


def test_an_adapter_is_not_left_out_of_the_weights_beside_it(tmp_path):
    weight_files.write(TENSORS, str(tmp_path))
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match="merge_and_unload"):
        weight_files.read(str(tmp_path))


def test_a_folder_of_deepspeed_is_named(tmp_path):
    (tmp_path / "pytorch_model.bin").mkdir()
    with pytest.raises(ValueError, match="pytorch_model.bin is a folder, as z"):
        weight_files.read(str(tmp_path))


# As saved by the TF classes of transformers 4.48 -> in the PyTorch classes.
TF_NAMES = {
    "embeddings/LayerNorm/beta:0": "embeddings.LayerNorm.bias",
    "bert/embeddings/LayerNorm/gamma:0": "bert.embeddings.LayerNorm.weight",
    "bert/embeddings/token_type_embeddings/embeddings:0": (
        "bert.embeddings.token_type_embeddings.weight"
    ),
    "bert/embeddings/word_embeddings/weight:0": (
        "bert.embeddings.word_embeddings.weight"
    ),
    "bert/encoder/layer_._11/attention/self/query/kernel:0": (
        "bert.encoder.layer.11.attention.self.query.weight"
    ),
    "mlm___cls/predictions/bias:0": "cls.predictions.bias",
    "nsp___cls/seq_relationship/kernel:0": "cls.seq_relationship.weight",
    "classifier/bias:0": "classifier.bias",
}


SHARDED = "-00001-of-00001."


@pytest.mark.parametrize(
    "file",
    [
        "tf_model.h5",
        "model.safetensors",
        "model-00001-of-00001.safetensors",
        "tf_model-00001-of-00001.h5",
    ],
)
def test_weights_of_a_tf_class_get_the_names_of_the_pytorch_class(
    tmp_path, file
):
    tensors = {
        name: np.arange(i, i + 6, dtype=np.float32).reshape(2, 3)
        for i, name in enumerate(TF_NAMES)
    }
    is_shard = SHARDED in file
    if file.endswith(".h5"):
        with h5py.File(tmp_path / file, "w") as content:
            content.create_group("top_level_model_weights")
            for name, tensor in tensors.items():
                path = f"{name.split('/')[0]}/tf_bert_model/{name}"
                content[name if is_shard else path] = tensor
    else:
        safetensors_numpy.save_file(tensors, tmp_path / file, {"format": "tf"})
    if is_shard:
        # The index has the model's name before each.
        listed = {f"tf_bert_model_1/{name}": file for name in tensors}
        index = file.replace(SHARDED, ".") + ".index.json"
        (tmp_path / index).write_text(json.dumps({"weight_map": listed}))
    found = weight_files.read(str(tmp_path))
    assert set(found) == set(TF_NAMES.values())
    for name, tensor in tensors.items():
        if "kernel" in name:
            tensor = tensor.T
        np.testing.assert_array_equal(found[TF_NAMES[name]], tensor)


@pytest.mark.parametrize("kind", ["F8_E5M2", "F8_E4M3"])
def test_eight_bit_floats_are_refused(tmp_path, kind):
    header = json.dumps(
        {"a": {"dtype": kind, "shape": [2], "data_offsets": [0, 2]}}
    ).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"12")
    with pytest.raises(ValueError, match=f"{path} has tensors of a dtype that"):
        weight_files.read(str(tmp_path))


def test_bfloat16_keeps_its_values(tmp_path):
    halves = {n: t.astype(ml_dtypes.bfloat16) for n, t in TENSORS.items()}
    weight_files.write(halves, str(tmp_path))
    found, notes = weight_files.with_float32(weight_files.read(str(tmp_path)))
    assert_all(found)
    assert notes == [
        "3 tensors converted from bfloat16 to float32, with the same values"
    ]


def test_integers_keep_their_dtype():
    found, notes = weight_files.with_float32({"position_ids": np.arange(3)})
    assert found["position_ids"].dtype == np.int64
    assert not notes
