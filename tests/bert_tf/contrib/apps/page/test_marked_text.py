"""HTML of texts with spans: escaped, complete, without scripts."""

import html.parser

from bert_tf.contrib.apps import attributions
from bert_tf.contrib.apps.page import marked_text
from bert_tf.serving.answers.classification import Label
from bert_tf.serving.answers.score import Score

HOSTILE = "<script>alert(1)</script> & \"quoted\" 'cat'"


class Page(html.parser.HTMLParser):
    """Collects the tags, texts, titles and styles of some HTML."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.marks, self.styles = [], "", [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "mark":
            self.marks.append([dict(attrs)["title"], ""])
            self.styles.append(dict(attrs)["style"])

    def handle_endtag(self, tag):
        if tag == "mark":
            self.tags.append("/mark")

    def handle_data(self, data):
        self.text += data
        tags = [tag for tag in self.tags if tag.endswith("mark")]
        if tags and tags[-1] == "mark":
            self.marks[-1][1] += data


def test_spans_are_marked_and_the_rest_is_kept():
    text = "Ann <b> Lee & Köln"
    spans = [
        marked_text.Span(0, 3, "red", "first"),
        marked_text.Span(14, 18, "blue", 'a "title"', "LOC"),
    ]
    page = Page(marked_text.mark(text, spans))
    assert page.tags == ["div", "mark", "/mark", "mark", "b", "/mark"]
    assert page.text == text + " LOC"
    assert page.marks == [["first", "Ann"], ['a "title"', "Köln LOC"]]


def test_text_around_spans_is_escaped():
    text = f"{HOSTILE} cat {HOSTILE}"
    span = marked_text.Span(len(HOSTILE) + 1, len(HOSTILE) + 4, "red", "")
    page = Page(marked_text.mark(text, [span]))
    assert page.tags == ["div", "mark", "/mark"]
    assert page.text == text


def attribution(name, text, word, value):
    begin = text.index(word)
    end = begin + len(word)
    return attributions.Attribution(name, word, begin, end, value)


def explanation(answer, num_cut=0):
    texts = {"text_a": HOSTILE, "text_b": "a cat"}
    words = (
        attribution("text_a", HOSTILE, "script", 0.5),
        attribution("text_a", HOSTILE, "&", -0.25),
        attribution("text_b", "a cat", "cat", 0.0),
    )
    return attributions.Explanation(
        texts, answer, 0.75, 0.5, 2e-7, 64, words, words, num_cut
    )


def test_an_explanation_has_numbers_words_and_no_script():
    label = Label("<i>", 0.75, {"no": 0.25, "<i>": 0.75})
    page = Page(marked_text.explained(explanation(label)))
    assert {"script", "i", "img", "a"} & set(page.tags) == set()
    assert HOSTILE in page.text and "a cat" in page.text
    assert page.marks == [
        ["+50.0 points (67%)", "script"],
        ["-25.0 points (33%)", "&"],
        ["+0.0 points (0%)", "cat"],
    ]
    # Blue and orange; the largest is the darkest, and 0 is transparent.
    blue, orange, none = page.styles
    assert "rgba(33,113,205,0.600)" in blue
    assert "rgba(230,97,1,0.300)" in orange and ",0.000)" in none
    assert page.text.index("<i>0.7500") < page.text.index("no0.2500")
    assert (
        "probability of <i>: 50.0% with [MASK] for every word, +25.0 points by "
        "the words, 75.0% in all. The words' sum differs by 2e-07 (64 steps)."
    ) in page.text
    assert "Most: script +50.0 points (67%); & -25.0 points (33%);" in page.text
    assert "+20 points: the word raises the probability by 20 of" in page.text
    assert "20% is a fifth of them." in page.text
    assert "cut" not in page.text


def test_texts_of_a_page_have_one_scale_of_colors():
    label = Label("no", 1.0, {"no": 1.0})
    assert marked_text.largest(explanation(label)) == 0.5
    page = Page(marked_text.explained(explanation(label), 2.0))
    blue, orange, none = page.styles
    assert "rgba(33,113,205,0.150)" in blue  # 0.6 * 0.5 / 2.
    assert "rgba(230,97,1,0.075)" in orange and ",0.000)" in none
    assert "lowers -200.0 points to +200.0 points raises" in page.text


def test_a_score_and_cut_tokens_are_named():
    score = Score(0.75)
    page = Page(marked_text.explained(explanation(score, 7)))
    text = page.text
    assert page.marks[0] == ["+0.5000 (67%)", "script"]
    assert "+20 points" not in text and "20% is a fifth" in text
    assert "score 0.75" in text and "score: 0.5000 with [MASK]" in text
    assert "The last 7 tokens were cut" in text


def test_a_text_without_words_has_no_marks():
    label = Label("no", 1.0, {"no": 1.0})
    empty = attributions.Explanation({}, label, 1.0, 1.0, 0.0, 32, (), (), 0)
    page = Page(marked_text.explained(empty))
    assert page.marks == [] and "Most:" not in page.text


def test_colors_are_one_for_each_name():
    colors = marked_text.colors(["PER", "LOC", "PER", *map(str, range(9))])
    assert len(colors) == 11 and colors["PER"] != colors["LOC"]


def test_messages_are_escaped():
    page = Page(marked_text.warn(HOSTILE))
    assert (page.tags, page.text) == (["p"], HOSTILE)


def test_the_file_loads_nothing():
    whole = marked_text.HEAD + marked_text.numbered(3, "x") + marked_text.TAIL
    page = Page(whole)
    assert {"script", "link", "img"} & set(page.tags) == set()
    assert 'id="line-3"' in whole and "http" not in whole
