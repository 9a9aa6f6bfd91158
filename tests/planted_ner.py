"""Random sentences that a tiny tagger can learn -> CoNLL column files."""

import random

# Words of the tiny vocabulary: locations follow "the", persons have two words.
PLACES = ["ship", "sea", "crew"]
NAMES = ["captain", "sail"]


def sentences(number, seed=0):
    """Returns sentences, each a list of (word, IOB2 tag)."""
    rng = random.Random(seed)
    found = []
    for _ in range(number):
        row = [(rng.choice(["was", "near", "not", "."]), "O")]
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.5:
                row += [("the", "O"), (rng.choice(PLACES), "B-LOC")]
            else:
                name = rng.choice(NAMES)
                row += [(name, "B-PER"), (rng.choice(NAMES), "I-PER")]
        found.append(row)
    return found


def write(path, rows, has_tags=True, sentences_a_document=4):
    """Writes a file in the layout of CoNLL-2003, in IOB2; returns its path."""
    lines = []
    for number, row in enumerate(rows):
        if number % sentences_a_document == 0:
            lines += ["-DOCSTART- -X- -X-" + " O" * has_tags, ""]
        for word, tag in row:
            lines.append(f"{word} NN B-NP" + f" {tag}" * has_tags)
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return str(path)
