"""The page of attention: its data, its size, and what a browser makes of it."""

import base64
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from bert_tf.contrib.apps.page import attention_page

TOKENS = ("[CLS]", "</script>", "猫", "[SEP]")


def attention(line=1, num_tokens=4):
    rng = np.random.default_rng(line)
    weights = rng.dirichlet(np.ones(4), (2, 3, 4)).astype(np.float32)
    return attention_page.Attention(line, TOKENS, weights, num_tokens)


def test_the_page_has_tokens_and_weights_in_percent():
    texts = [attention(1), attention(7, num_tokens=300)]
    page = attention_page.draw(texts, "runs/<x>")
    (written,) = re.findall(r'"application/json">([^<]*)</script>', page)
    data = json.loads(written)
    assert data["source"] == "runs/<x>" and "<x>" not in page
    for found, expected in zip(data["texts"], texts, strict=True):
        weights = expected.weights
        assert tuple(found["tokens"]) == TOKENS
        assert (found["line"], found["count"]) == (
            expected.line,
            expected.num_tokens,
        )
        assert (found["layers"], found["heads"]) == (2, 3)
        percent = np.frombuffer(base64.b64decode(found["weights"]), np.uint8)
        np.testing.assert_allclose(
            percent.reshape(weights.shape) / 100, weights, atol=0.00501
        )
    # It loads nothing.
    assert not re.search(r"https?:|\bsrc=|\bhref=|@import|fetch\(", page)


def test_texts_fit_until_a_file_is_too_large(monkeypatch):
    monkeypatch.setattr(attention_page, "_MAX_WEIGHTS", 150)
    assert attention_page.fits([attention()])
    assert not attention_page.fits([attention(), attention()])


@pytest.mark.slow
def test_a_browser_draws_every_head_and_the_first_token(tmp_path):
    browser = shutil.which("chromium")
    if not browser:
        pytest.skip("needs Chromium, which `make test-explore` installs")
    path, drawn = tmp_path / "attention.html", attention(num_tokens=9)
    path.write_text(attention_page.draw([drawn], "a run"), "utf-8")
    flags = "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"
    page = subprocess.run(
        [browser, *flags, path.as_uri()],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = re.findall('aria-label="([^"]*)"', page)
    assert names == [f"layer {i}, head {j}" for i in range(2) for j in range(3)]
    assert "9 tokens; the first 4 are shown." in page
    shown = re.findall(r'<span tabindex="0"[^>]* title="([\d.]+)"', page)
    weights = drawn.weights[0, 0, 0]
    np.testing.assert_allclose([float(x) for x in shown], weights, atol=0.006)
    largest = ("[CLS]", "&lt;/script&gt;", "猫", "[SEP]")[weights.argmax()]
    assert f"[CLS] attends to {largest}: {weights.max():.2f}" in page
