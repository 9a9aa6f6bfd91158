"""A few invented sentences -> CSV files in SWAG's layout."""

import csv

SUBJECTS = ["The captain", "The crew", "Nobody", "The old man", "She"]
ENDINGS = [
    "waits for the boat.",
    "drinks warm soup.",
    "reads the letter.",
    "swam to the shore.",
    "was lost in the garden.",
]


def header(num_endings=4, is_labelled=True):
    """Returns the columns of SWAG's train.csv, with any number of endings."""
    names = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2"]
    names += ["gold-source", *(f"ending{n}" for n in range(num_endings))]
    return names + ["label"] * is_labelled


def rows(count, num_endings=4, is_labelled=True):
    """Returns rows of cells; sent1 quotes the right ending."""
    found = []
    for number in range(count):
        subject = SUBJECTS[number % len(SUBJECTS)]
        label = number % num_endings
        sent1 = f'He said, "{ENDINGS[label]}"'
        cells = [number, "invented", number, f"{sent1} {subject}", sent1]
        cells += [subject, "gold", *ENDINGS[:num_endings]]
        found.append([*cells, label] if is_labelled else cells)
    return found


def write(path, cells, names=None):
    """Writes a file; returns its path as text."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names or header(), *cells])
    return str(path)
