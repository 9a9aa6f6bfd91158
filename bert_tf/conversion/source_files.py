"""Path of a checkpoint -> a digest of its files, which tells of changes."""

import hashlib
import os
import re

# Folders inside, of KerasHub and of sentence-transformers.
_PARTS = re.compile(r"assets|tokenizer|\d+_\w+")


def digest(path: str) -> str | None:
    """Returns a digest of names, sizes and times of a checkpoint's files.

    Args:
      path: folder, or the prefix of a TensorFlow checkpoint; then all files
        of the folder count, since config and vocabulary are among them.

    Returns:
      A sha256; None if the checkpoint is gone.
    """
    is_folder = os.path.isdir(path)
    top = path if is_folder else os.path.dirname(os.path.abspath(path))
    prefix = "" if is_folder else os.path.basename(path)
    lines, is_there = [], False
    for inside, folders, names in os.walk(top):
        folders[:] = [n for n in folders if is_folder and _PARTS.fullmatch(n)]
        for name in names:
            # A link to nothing counts as nothing.
            if name.startswith(".") or not os.path.isfile(
                file := os.path.join(inside, name)
            ):
                continue
            is_there |= name.startswith(prefix)
            state = os.stat(file)
            place = os.path.relpath(file, top)
            lines.append(f"{place} {state.st_size} {state.st_mtime_ns}\n")
    if not is_there:
        return None
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
