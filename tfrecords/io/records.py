"""Serialized examples <-> TFRecord shards + manifest."""

import collections
import dataclasses
import glob
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from tfrecords import options
from tfrecords import schema as schema_lib
from tfrecords.io import atomic_files, json_files, shards, storage

MANIFEST_NAME = "manifest.json"
# Sidecars of a shard: see shards.py and static_lengths.py.
_SIDECARS = (".index", ".lengths")
_RECORDS_AT_ONCE = 8192
# Bytes of shards to compare with their sha256 at a start; about a second.
DIGEST_BYTES = 256 << 20

# For writers of examples, which import only this module.
ShardInfo = shards.ShardInfo
write_shard = shards.write_shard
shard_name = shards.shard_name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """Contents of a folder of records, and how they were made."""

    schema_name: str  # A key of `schema.SCHEMAS`.
    sizes: dict[str, int]  # Size of each named dimension of the schema.
    flags: dict  # Settings that the records were made with.
    vocabulary: dict  # `sha256`, `size` and the rules, see `vocab.rules_of`.
    statistics: dict  # Counts, for readers and for checks.
    shards: list[ShardInfo]  # In order.
    # Versions of libraries that the tokens depend on.
    libraries: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def num_examples(self) -> int:
        """Number of records in all shards: examples, or packed rows."""
        return sum(shard.num_examples for shard in self.shards)

    @property
    def digest(self) -> str:
        """sha256 over all shards, equal if and only if the records are."""
        lines = "".join(f"{shard.sha256}\n" for shard in self.shards)
        return hashlib.sha256(lines.encode()).hexdigest()

    def is_complete(self, folder: str) -> bool:
        """Returns whether the folder has every shard at its full size."""
        num_bytes = {f.name: f.stat().st_size for f in os.scandir(folder)}
        return all(num_bytes.get(s.name) == s.num_bytes for s in self.shards)

    def write(self, folder: str) -> None:
        """Writes manifest.json, which marks a complete folder: call it last."""
        content = {
            "num_examples": self.num_examples,
            "digest": self.digest,
            **dataclasses.asdict(self),
        }
        path = os.path.join(folder, MANIFEST_NAME)
        with storage.atomic_file(path) as file:
            json.dump(content, file, indent=2)
            file.write("\n")

    @classmethod
    def read(cls, folder: str) -> "Manifest":
        """Reads manifest.json.

        Raises:
          ValueError: if it is missing or invalid.
        """
        path = os.path.join(folder, MANIFEST_NAME)
        try:
            with storage.open_bytes(path) as file:
                content = json_files.parse(file.read(), path, _CONTENT)
        except FileNotFoundError:
            raise ValueError(
                f"{folder!r} has no {MANIFEST_NAME}: its records were never "
                "finished, or they are in a subfolder. Rerun the command that "
                "makes them; it resumes where it stopped."
            ) from None
        _check_names(content, path)
        fields = {f.name: content[f.name] for f in dataclasses.fields(cls)}
        _check(fields, path)
        fields["shards"] = list(map(shard_info, fields["shards"]))
        found = cls(**fields)
        digest = content.get("digest", found.digest)
        if digest != found.digest:
            raise ValueError(
                f"{path}: digest is {options.quoted(digest)}; the sha256 of "
                f"its shards give {found.digest!r}, so one was edited. Copy "
                "the file again, or make the records again."
            )
        return found


def shard_info(row: Mapping) -> ShardInfo:
    """Returns the shard that an object of the form `SHARD` describes."""
    return ShardInfo(**{name: row[name] for name in SHARD})


# Kinds of a shard's fields, of a manifest's, and of entries that readers use.
SHARD = {field.name: field.type for field in dataclasses.fields(ShardInfo)}
_CONTENT = {
    "schema_name": str,
    "sizes": dict,  # All are positive integers.
    "flags": {
        "max_seq_length?": int,
        "random_seed?": int,
        "dupe_factor?": int,
        "pairs?": str,
        "short_seq_prob?": float,
        "max_examples_per_row?": int,
        "masking_time?": str,
        "max_predictions_per_seq?": int,
        "masked_lm_prob?": float,
        "masking?": str,
        "do_whole_word_mask?": bool,
        "max_ngram?": int,
        "mask_mix?": [str],
        "labels?": [str],
    },
    "vocabulary": dict,
    "statistics": {"examples?": int, "rows?": int},
    "shards": [SHARD],
    "libraries": dict,
}
# Of `vocabulary`, unless it is empty, as of records of another origin.
_VOCABULARY = {
    "sha256": str,
    "size": int,
    "do_lower_case": bool,
    "strip_accents?": bool,
    "tokenize_chinese_chars?": bool,
    "split_special_tokens?": bool,
}
_SUMS = {"num_examples", "digest"}  # Of all shards, for users.
# Flags of make_pretraining_records; it writes all since the first version.
_MADE_WITH = ("version", "compat")  # One of both is there.
_PRETRAINING_FLAGS = (
    *("dupe_factor", "masked_lm_prob", "max_predictions_per_seq"),
    *("random_seed", "pairs", "masking", "masking_time", "mask_mix"),
)


def _check_names(content: Mapping, path: str) -> None:
    """Raises ValueError for entries with other names than a writer gives.

    What is missing is not compared with the model, so that a wrong name would
    switch a comparison off.
    """
    known = {name.removesuffix("?") for name in _CONTENT} | _SUMS
    found = [name for name in content if name not in known]
    if content["vocabulary"]:
        json_files.check(content, {"vocabulary": _VOCABULARY}, path, entry="")
        entries = {name.removesuffix("?") for name in _VOCABULARY}
        unknown = content["vocabulary"].keys() - entries
        found += [f"vocabulary.{name}" for name in sorted(unknown)]
    if found:
        raise ValueError(
            f"{path}: {found[0]} is unknown: its name is wrong, or a later "
            "version made the records. Make them again, or copy the file again."
        )
    flags = content["flags"]
    if not flags.keys().isdisjoint(_MADE_WITH):
        for name in _PRETRAINING_FLAGS:
            if name not in flags:
                raise ValueError(
                    f"{path}: flags.{name} is missing. Make the records again, "
                    "or copy the file again."
                )


def _check(fields: Mapping, path: str) -> None:
    """Raises ValueError for sizes or shards that a manifest cannot have."""
    sizes, names = fields["sizes"], [row["name"] for row in fields["shards"]]
    needed = dict(sizes)
    for feature in schema_lib.SCHEMAS.get(fields["schema_name"], {}).values():
        needed |= {name: sizes.get(name) for name in feature.shape}
    for name, size in needed.items():
        json_files.check(size, range(1, 2**31), path, f"sizes.{name}")
    if not names:
        raise ValueError(f"{path} lists no shard. Make the records again.")
    for name, count in collections.Counter(names).items():
        if os.path.basename(name) != name or not name:
            raise ValueError(
                f"{path}: the shard {name!r} should be a file in the folder. "
                "Make the records again."
            )
        if count > 1:
            raise ValueError(
                f"{path} lists {name!r} twice. Make the records again."
            )


def find_shards(path: str) -> list[str]:
    """Returns the shards that comma-separated paths or globs match, sorted.

    Raises:
      ValueError: if one of them is a folder.
    """
    paths = set()
    for part in filter(None, path.split(",")):
        # A file may have a [ in its name.
        paths |= {part} if os.path.isfile(part) else set(glob.glob(part))
    for name in sorted(filter(os.path.isdir, paths)):
        raise ValueError(
            f"{name!r} in {path!r} is a folder. Give one folder that a "
            "make_*_records script wrote, or only TFRecord files."
        )
    # `train*` also matches the sidecars of shards.
    sidecars = {name + end for name in paths for end in _SIDECARS}
    return sorted(paths - sidecars)


def check_shard(path: str, num_bytes: int) -> None:
    """Raises ValueError if a shard is not the file that a manifest lists."""
    if not os.path.exists(path):
        raise ValueError(
            f"{path!r} is in the manifest but not in the folder. Rerun the "
            "command that makes it."
        )
    size = os.path.getsize(path)
    if size == num_bytes:
        return
    shards.scan(path)  # Raises an error for a truncated record.
    raise ValueError(
        f"{path!r} has {size} bytes; the manifest lists {num_bytes}. Delete it "
        "and rerun the command that makes it."
    )


def check_digest(path: str, shard: ShardInfo) -> None:
    """Raises ValueError if the sha256 of a shard is not its manifest's."""
    if atomic_files.digest(path) != shard.sha256:
        raise ValueError(
            f"{path!r} is not the shard that the manifest lists: its sha256 is "
            f"not {shard.sha256[:12]}.... Delete it and rerun the command that "
            "makes it."
        )


def check_digests(folder: str, of_folder: Iterable[ShardInfo]) -> None:
    """Calls `check_digest` for shards of at most `DIGEST_BYTES` in total."""
    left = DIGEST_BYTES
    for shard in of_folder:
        if shard.num_bytes <= left:
            left -= shard.num_bytes
            check_digest(os.path.join(folder, shard.name), shard)


class Records:
    """Random access to the records of a list of shards.

    Args:
      paths: the shards.
      manifest: the manifest of the folder; None for files without one.
    """

    def __init__(self, paths: Sequence[str], manifest: Manifest | None = None):
        self.paths = list(paths)
        self.manifest = manifest
        self._shards = [shards.Shard(path) for path in self.paths]
        # [shards + 1]: index of each shard's first record, then the total.
        self.first = np.cumsum([0] + [len(shard) for shard in self._shards])
        # Whether features have the names of google-research/bert.
        self.legacy_names = False
        if manifest is None and len(self):
            names = self.features(0)
            self.legacy_names = any(
                legacy in names and name not in names
                for name, legacy in schema_lib.LEGACY_NAMES.items()
            )

    @classmethod
    def open(cls, path: str) -> "Records":
        """Opens a folder with a manifest, or any TFRecord files.

        Args:
          path: a folder with a manifest; or comma-separated paths or globs of
            any files of tf.train.Example, also those of google-research/bert.

        Raises:
          ValueError: if no records exist, or they are unfinished or damaged.
        """
        if not os.path.isdir(path):
            paths = find_shards(path)
            if not paths:
                raise ValueError(
                    f"No records at {path!r}; give the folder that a make_*_"
                    "records script wrote, or a glob of TFRecord files."
                )
            opened = cls(paths)
            if not len(opened):
                raise ValueError(
                    f"No records in {options.quoted(', '.join(paths))}: they "
                    "are empty. Give other files, or make them again."
                )
            return opened
        manifest = Manifest.read(path)
        paths = [os.path.join(path, shard.name) for shard in manifest.shards]
        for shard_path, shard in zip(paths, manifest.shards, strict=True):
            check_shard(shard_path, shard.num_bytes)
        opened = cls(paths, manifest)
        counts = np.diff(opened.first).tolist()
        for shard, count in zip(manifest.shards, counts, strict=True):
            if count != shard.num_examples:
                raise ValueError(
                    f"{path!r}: the manifest lists {shard.num_examples} "
                    f"records in {shard.name}, which has {count}. Make the "
                    "records again in an empty folder."
                )
        return opened

    def __len__(self) -> int:
        return int(self.first[-1])

    @property
    def offsets(self) -> np.ndarray:
        """[records + shards] int64: `Shard.offsets` of all shards, joined."""
        return np.concatenate([shard.offsets for shard in self._shards])

    def _locate(self, indices) -> Iterator[tuple[shards.Shard, int]]:
        """Returns the shard of each record and its index in the shard."""
        indices = np.asarray(indices, np.int64)
        wrong = indices[(indices < 0) | (indices >= len(self))]
        if wrong.size:
            raise ValueError(
                f"Record {wrong[0]} of {len(self)} does not exist."
            )
        owners = np.searchsorted(self.first, indices, side="right") - 1
        numbers = indices - self.first[owners]
        of_record = [self._shards[owner] for owner in owners.tolist()]
        return zip(of_record, numbers.tolist(), strict=True)

    def describe(self, index: int) -> str:
        """Returns a record's file, index in it and byte offset, as text."""
        ((shard, record),) = self._locate([index])
        return shard.describe(record)

    def get(self, indices: np.ndarray) -> list[bytes]:
        """Returns the serialized examples at `indices`, in that order.

        Args:
          indices: [N] integers in [0, len(self)).

        Raises:
          ValueError: naming shard, record and byte, if a record is damaged.
        """
        return [shard.read(record) for shard, record in self._locate(indices)]

    def read(self, features: schema_lib.Schema) -> dict[str, np.ndarray]:
        """Returns the given features of all records, [N, ...] each."""
        parts = []
        for begin in range(0, len(self), _RECORDS_AT_ONCE):
            end = min(begin + _RECORDS_AT_ONCE, len(self))
            serialized = self.get(np.arange(begin, end))
            parts.append(
                schema_lib.parse(serialized, features, self.manifest.sizes)
            )
        return {n: np.concatenate([p[n] for p in parts]) for n in features}

    def features(self, index: int) -> dict[str, np.ndarray]:
        """Returns all features of one record, including bytes, as flat arrays.

        Raises:
          ValueError: if it is damaged or not a tf.train.Example.
        """
        import tensorflow as tf

        try:
            example = tf.train.Example.FromString(self.get([index])[0])
        except Exception as error:  # protobuf's DecodeError has no public name.
            if isinstance(error, ValueError):
                raise
            raise ValueError(
                f"{self.describe(index)} is not a tf.train.Example. Give "
                "records that a make_*_records script or google-research/bert "
                "wrote."
            ) from error
        features = {}
        for name, feature in example.features.feature.items():
            oneof = feature.WhichOneof("kind")
            values = getattr(feature, oneof).value if oneof else []
            # NumPy's bytes dtype drops trailing zeros.
            dtype = object if oneof == "bytes_list" else None
            features[name] = np.array(list(values), dtype)
        return features

    def check(
        self,
        schema: schema_lib.Schema,
        sizes: schema_lib.Sizes,
        vocab_size: int | None = None,
        vocab_sha256: str | None = None,
    ) -> None:
        """Checks that a model can read these records.

        Args:
          schema: the features that the model needs.
          sizes: the model's size of each named dimension.
          vocab_size: the model's; that of the records may be smaller.
          vocab_sha256: digest of the model's vocab.txt.

        Raises:
          ValueError: if the records are empty, or differ from the model in
            features, lengths or vocabulary. The message names the difference.
        """
        where = os.path.dirname(self.paths[0])
        if not len(self):
            raise ValueError(f"The records in {where!r} hold no examples.")
        lengths = {n: len(array) for n, array in self.features(0).items()}
        for name, feature in schema.items():
            on_disk = schema_lib.name_on_disk(name, self.legacy_names)
            shape = schema_lib.shape_of(feature, sizes)
            if on_disk not in lengths:
                raise ValueError(
                    f"{self.describe(0)} has features {sorted(lengths)} and no "
                    f"{on_disk!r}. Are these records for another task?"
                )
            if lengths[on_disk] != int(np.prod(shape, dtype=int)):
                wanted = " x ".join(f"{d}={sizes[d]}" for d in feature.shape)
                raise ValueError(
                    f"{self.describe(0)} has {lengths[on_disk]} values of "
                    f"{on_disk!r}; expected {wanted or 'one'}. Set that flag "
                    "to the value the records were made with, or make them "
                    "again."
                )
        vocabulary = self.manifest.vocabulary if self.manifest else {}
        size, sha256 = vocabulary.get("size", 0), vocabulary.get("sha256")
        if vocab_size is not None and size > vocab_size:
            raise ValueError(
                f"The records in {where!r} were made with {size} tokens; the "
                f"model has vocab_size={vocab_size}. Use the bert_config.json "
                "that belongs to the vocabulary, or make them again with the "
                "model's."
            )
        if None not in (vocab_sha256, sha256) and sha256 != vocab_sha256:
            raise ValueError(
                f"The records in {where!r} were made with a vocabulary of "
                f"sha256 {sha256}; the model's has sha256 {vocab_sha256}. Use "
                "the --vocab_file they were made with, which may replace "
                "[unused] entries of the model's, or make them again with the "
                "model's."
            )
