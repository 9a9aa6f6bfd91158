#!/usr/bin/env bash
# wikiextractor 3.1.0 leaves HTML's &amp; and &lt; in the JSON that it writes.
#
# Guess: texts and titles in `--json` are plain, as JSON needs no escapes of HTML, and
# `--html-safe False` would turn these off in any format.
# Seen: "AT&T" is "AT&amp;T" in JSON as in the <doc> format, so BERT reads "at & amp ; t",
# and answers or queries with an ampersand are not in their text. Any word after
# `--html-safe` is true, "False" too; with an empty one the text is plain, the title not.
# Apply Python's `html.unescape` to titles and, without that flag, to texts.
#
# Needs Python 3.10 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'wikiextractor==3.1.0'

cat > dump.xml <<'XML'
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="en">
  <siteinfo>
    <sitename>Example</sitename>
    <base>https://example.org/wiki/Main_Page</base>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="10" case="first-letter">Template</namespace>
      <namespace key="828" case="first-letter">Module</namespace>
    </namespaces>
  </siteinfo>
  <page>
    <title>Research &amp; trade</title>
    <ns>0</ns>
    <id>1</id>
    <revision>
      <id>2</id>
      <text bytes="40" xml:space="preserve">AT&amp;T knows that 3 &amp;lt; 5.
</text>
    </revision>
  </page>
</mediawiki>
XML
cat > show.py <<'PY'
import json
import sys

row = json.loads(sys.stdin.readline())
print(f"{sys.argv[1]}: {row['title']} | {row['text']}")
PY
extract() {
  venv/bin/python -m wikiextractor.WikiExtractor --json --processes 1 --output - \
    "$@" dump.xml 2> log.txt
}
{
  venv/bin/pip list --format freeze --disable-pip-version-check | grep -i wikiextractor
  extract | python3 show.py default
  extract --html-safe False | python3 show.py False
  extract --html-safe '' | python3 show.py empty
} | tee seen.txt
cat > expected.txt <<'TXT'
wikiextractor==3.1.0
default: Research &amp; trade | AT&amp;T knows that 3 &lt; 5.
False: Research &amp; trade | AT&amp;T knows that 3 &lt; 5.
empty: Research &amp; trade | AT&T knows that 3 < 5.
TXT
diff expected.txt seen.txt
echo "as stated"
