"""Names of streams, jobs, channels and handles: which there are, and their form in paths."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holons as h
from holons.errors import BadName
from holons.names import NAME_BYTES_MAX, check_name, decoded, encoded


def is_name(text: str) -> bool:
    try:
        return check_name("stream", text) == text
    except BadName:
        return False


TEXTS = st.text(max_size=40) | st.text(alphabet="aAbB./%-_ é\u0301ßẞ", max_size=8)
NAMES = TEXTS.filter(is_name)


@given(TEXTS, TEXTS)
def test_encoded_names_are_told_apart_even_where_case_and_composition_are_not(one, other):
    forms = [unicodedata.normalize("NFD", encoded(text).casefold()) for text in (one, other)]
    assert (forms[0] == forms[1]) == (one == other)


@given(TEXTS)
def test_an_encoded_name_can_be_read_back(text):
    assert decoded(encoded(text)) == text
    assert re.fullmatch(r"([a-z0-9_-]|%[0-9a-f]{2})*", encoded(text))


@given(st.text(alphabet="aA%25eE.é", max_size=8))
def test_a_text_that_is_read_is_the_encoded_form_of_that_name(text):
    name = decoded(text)
    assert name is None or encoded(name) == text


@given(NAMES, NAMES)
def test_two_names_are_never_two_spellings_of_one_text(one, other):
    assert one == other or unicodedata.normalize("NFD", one) != unicodedata.normalize("NFD", other)
    assert len(encoded(one)) <= NAME_BYTES_MAX


@pytest.mark.parametrize(
    "name",
    [
        *("bids", "HotAuctions", "raw/copies", "..", ".", "../..", "a b", " a", "50% off", "Umsätze", "売上集計", "🎉"),
        *("a=b", "a:b", "fold-x", "con", "-n", "%2e", "x" * NAME_BYTES_MAX),
    ],
)
def test_what_a_user_may_write_is_a_name(name):
    assert check_name("stream", name) == name


@pytest.mark.parametrize(
    ("name", "reason", "hint"),
    [
        ("", "it is empty", "such as 'bids'"),
        (" \t", "it is empty", "such as 'bids'"),
        (None, "it is not text", "such as 'bids'"),
        (7, "it is not text", "such as 'bids'"),
        ("a\0b", "the control character U+0000", "cannot be seen"),
        ("a\nb", "the control character U+000A", "cannot be seen"),
        ("\x1b[31mred", "the control character U+001B", "cannot be seen"),
        ("a\x9bb", "the control character U+009B", "cannot be seen"),
        ("a\u2028b", "the control character U+2028", "cannot be seen"),
        ("abc\u202etxt", "the control character U+202E", "cannot be seen"),
        ("a\ud800", "the control character U+D800", "cannot be seen"),
        ("Umsa\u0308tze", "put together of several characters", "'Umsätze' composed"),
        ("x" * 300, "it takes 300 bytes in a path, and 190 is the most", "shorten it"),
        ("X" * 64, "it takes 192 bytes in a path", "lower-case letters, digits, - and _ take one byte"),
    ],
)
def test_what_nobody_can_mean_is_refused_with_a_reason_and_a_hint(name, reason, hint):
    with pytest.raises(BadName) as caught:
        check_name("stream", name)
    assert reason in caught.value.message
    assert "cannot be the name of a stream" in caught.value.message
    assert hint in caught.value.hint
    assert "\x1b" not in str(caught.value), "an error shows such a name in plain characters"


class Copies(h.Program):
    def process(self, events):
        self.output(events, channel="copies")


def test_jobs_and_inputs_refuse_names_when_they_are_made():
    with pytest.raises(BadName, match="name of a stream: it holds the control character U\\+0000"):
        h.job(Copies(), "a\0b")
    with pytest.raises(BadName, match="name of a job"):
        h.job(Copies(), "bids", name="x" * 191)
    with pytest.raises(BadName, match="name of a job"):
        h.job(type("C" * 70, (Copies,), {})(), "bids")


def test_pipelines_refuse_names_with_the_line_where_they_are_written():
    with pytest.raises(BadName, match=r"name of a stream: it is empty \(line test_names.py:\d+\)"):
        h.source("")
    with pytest.raises(BadName, match=r"name of a channel: .*U\+001B \(line test_names.py:\d+\)"):
        h.source("bids").to("\x1b[0m")
    with pytest.raises(h.errors.BadProgram, match="belongs to the runtime"):
        h.source("bids").to("late")
    assert h.source("bids").to("raw/copies of Köln").name == "raw/copies of Köln"


def test_programs_refuse_handles_and_channels_whose_names_nobody_can_mean():
    def on_window(self, window):
        yield {"total": self.total[window]}

    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    methods = {"process": lambda self, events: None, "on_window": on_window}
    with pytest.raises(BadName, match="name of a handle"):
        h.job(type("Long", (h.Program,), {**methods, "x" * 191: total})(), "bids")
    late = h.on_window(total)(on_window)
    with pytest.raises(BadName, match="name of a channel"):
        h.job(type("Odd", (h.Program,), {**methods, "total": total, "y" * 191: late, "on_window": None})(), "bids")
