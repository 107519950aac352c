"""The text of a push: every language's sentence, what tags find it, and names that would spoil it."""

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from bridge_server.push.notices import NAME, RIGHT_TO_LEFT, TEXTS, match_language, request_text, shown_name
from tests.support.rows import each_row

FSI, PDI = "\u2068", "\u2069"
ALIF_BA = "\u0627\u0628"
SCRIPTS = """
    ARABIC ar ckb fa ps ur | HEBREW he yi | CYRILLIC be bg kk ky mk mn ru sr tg uk | DEVANAGARI hi mr ne
    BENGALI as bn | CJK zh-Hans zh-Hant | ETHIOPIC am | GREEK el | GUJARATI gu | ARMENIAN hy | HIRAGANA ja
    GEORGIAN ka | KHMER km | KANNADA kn | HANGUL ko | LAO lo | MALAYALAM ml | MYANMAR my | ORIYA or
    GURMUKHI pa | SINHALA si | TAMIL ta | TELUGU te | THAI th
"""
MATCHES = """
    en en | EN_us en | en-GB en | EN en | en-x-pirate en | en-US-u-hc-h12 en
    de de | de-CH-1996 de | de_DE.UTF-8@euro de | de-DE-u-co-phonebk de | de-Latn-DE de | deu de | ger de
    de-t-sr-latn de | DE-de de
    pt pt | pt-PT pt | pt-AO pt | pt-BR pt-BR | PT_br pt-BR | pt_BR.UTF-8 pt-BR | pt-Latn-BR pt-BR
    zh zh-Hans | zh-CN zh-Hans | zh-SG zh-Hans | zh-Hans-TW zh-Hans | zh_CN.GB18030 zh-Hans | cmn zh-Hans
    zh-cmn-Hans-CN zh-Hans | zh-CHS zh-Hans | zho zh-Hans | yue-Hans zh-Hans
    zh-Hant zh-Hant | zh-Hant-TW zh-Hant | zh-TW zh-Hant | zh-HK zh-Hant | zh_MO zh-Hant | ZH-HANT-CN zh-Hant
    zh_TW_#Hant zh-Hant | zh__#Hant zh-Hant | zh-yue-HK zh-Hant | zh-min-nan zh-Hant | zh-CHT zh-Hant
    yue zh-Hant | zh-hakka zh-Hant | zh-hak zh-Hant | nan-TW zh-Hant | wuu zh-Hans | pt_BR_AO pt-BR
    sr sr | sr-RS sr | sr-BA sr | sr-Cyrl-ME sr | sr_RS@cyrillic sr | sr-Latn sr-Latn | sr-Latn-RS sr-Latn
    sr_RS.UTF-8@latin sr-Latn | sr_RS_#Latn sr-Latn | sr-ME sr-Latn | sh sr-Latn | sh-Cyrl sr | srp sr
    no nb | nb-NO nb | no_NO nb | no-bok nb | nn nn | nn_NO nn | no-nyn nn | nor nb
    id id | in id | in_ID id | he he | iw he | iw-IL he | yi yi | ji yi | jv jv | jw jv | ro-MD ro | mo ro
    fil fil | fil-PH fil | tl fil | tl_PH fil | tgl fil
    ku ku | ku-Arab ckb | ku-IQ ckb | ku-IR ckb | ckb-IQ ckb | kmr-TR ku | fa-AF fa | prs fa | ar-001 ar
    es-419 es | ca-valencia ca | fr_CA fr | eng en | cnr-Latn cnr | gsw-CH de
"""
UNKNOWN = """
    tlh x-de i-klingon C POSIX C.UTF-8 * - -- _de @ @latin .UTF-8 ; , ,, q=1 123 Deutsch d\u00e9 \uff44\uff45
    \ud800 de\u0000 und mul zz-Hant
"""


def rows(table: str) -> list[list[str]]:
    return [row.split() for row in table.replace("\n", "|").split("|") if row.strip()]


every_language = each_row("tag", TEXTS)


NOT_LATIN = {tag: script for script, *tags in rows(SCRIPTS) for tag in tags}


def sample(tag: str) -> str:
    return TEXTS[tag].with_name.replace(NAME, "")


def is_right_to_left(text: str) -> bool:
    """Whether the first strong character outside isolates is (rule P2 of UAX #9)."""
    depth = 0
    for character in text:
        depth += (character == FSI) - (character == PDI)
        direction = unicodedata.bidirectional(character)
        if not depth and direction in ("L", "R", "AL"):
            return direction != "L"
    raise AssertionError(f"nothing strong in {text!r}")


@every_language
def test_every_language_says_the_name_once_and_has_an_anonymous_form_that_is_whole(tag: str) -> None:
    with_name, anonymous = TEXTS[tag].with_name, TEXTS[tag].anonymous
    assert with_name.count(NAME) == request_text(tag, "Uniswap").count("Uniswap") == 1
    assert not set(sample(tag) + anonymous) & set("{}%\n")
    assert request_text(tag, "") == anonymous == anonymous.strip()
    assert anonymous[0] == anonymous[0].title()
    assert anonymous.casefold() in sample(tag).casefold()


@every_language
def test_every_language_is_found_under_its_own_tag_however_that_is_written(tag: str) -> None:
    for spelled in (tag, tag.upper().replace("-", "_"), f" {tag}-u-nu-latn "):
        assert match_language(spelled) == tag


@every_language
def test_every_language_is_written_in_its_script_and_runs_in_its_direction(tag: str) -> None:
    script = NOT_LATIN.get(tag, "LATIN")
    scripts = ("HIRAGANA", "KATAKANA", "CJK") if tag == "ja" else (script, "MODIFIER LETTER")
    assert (tag in RIGHT_TO_LEFT) is (script in ("ARABIC", "HEBREW"))

    for text in (sample(tag), TEXTS[tag].anonymous):
        letters = [each for each in text if each.isalpha()]
        assert letters
        assert all(unicodedata.name(each).startswith(scripts) for each in letters)
        assert unicodedata.is_normalized("NFC", text)
        assert is_right_to_left(text) is (tag in RIGHT_TO_LEFT)
    for name in ("Uniswap", "1inch", ALIF_BA, "\u05d0\u05d1 x", "\u0661\u0662"):
        assert is_right_to_left(request_text(tag, name)) is (tag in RIGHT_TO_LEFT), name


LISTS = [
    ("de-CH,de;q=0.9,en;q=0.8", "de"), ("tlh, pt-BR;q=0.9", "pt-BR"), ("*,fr", "fr"), ("de;q=0.9", "de"),
    ("\tde ", "de"), ("tlh," * 1_000_000 + "de", "en"),
]  # fmt: skip


@each_row(("sent", "tag"), [*rows(MATCHES), *LISTS])
def test_language_tags_of_clients_find_their_text(sent: str, tag: str) -> None:
    assert match_language(sent) == tag


@each_row("sent", ["", " ", "\n", *UNKNOWN.split()])
def test_unknown_language_is_english(sent: str) -> None:
    assert match_language(sent) == "en"
    assert request_text(sent, "Uniswap") == "New request from Uniswap"


@given(
    st.text(alphabet=st.characters() | st.sampled_from("-_@.,;#xX")),
    st.text(alphabet=st.characters(codec=None)),
)
@example("zh" * 100_000, "\u0301" * 100_000)
@example("-" * 100_000, "\u200d\U0001f1e6" * 100_000)
def test_any_two_strings_give_one_line_that_can_be_sent(language: str, name: str) -> None:
    text = request_text(language, name)
    assert text.encode()
    assert len(text.splitlines()) == 1
    assert len(text) < 128


@given(st.sampled_from(sorted(TEXTS)), st.text(alphabet="-_@.,;#xXaAtTwW019\u0130\u212a"))
def test_whatever_follows_a_language_it_is_still_known(tag: str, rest: str) -> None:
    assert match_language(f"{tag};{rest}") == tag
    assert match_language(f"{tag}-x-{rest}".split(",")[0].split("@")[0]) == tag


CLEANED = [
    ("Uniswap", "Uniswap"), ("  Uni \t\r\n swap ", "Uni swap"), ("Uni\u2028swap\u2029\u0085x", "Uni swap x"),
    ("Uni\u3000\u00a0swap", "Uni swap"), ("Uni\x00\x07\x1b\x7fswap", "Uniswap"),
    ("\u202eUni\u2066s\u200fw\u061ca\u2069p\u202c", "Uniswap"), ("Uni\ud83d swap\udc00", "Uni swap"),
    ("Uni\u200bs\u2060w\ufeffa\u00adp", "Uniswap"), ("Uni\u200d\u200cswap\u200d", "Uniswap"),
    ("\uf8ff Pay\U000f0000", "Pay"), ("Pay\ufdd0\uffff\U0010fffe", "Pay"),
    ("Pay\U000e0041\U000e007f\U000e0001", "Pay"), ("\u3164Pay\u2800\u115f", "Pay"),
    ("\u0301\u0308 \u200dPay", "Pay"), ("Z" + "\u0335" * 40 + "y", "Z" + "\u0335" * 8 + "y"),
]  # fmt: skip
KEPT = [
    "e\u0301te\u0301", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\U0001f469\u200d\U0001f4bb",
    "\u2764\ufe0f", "{name} {} %s %(x)s \\1 {0!r}", "<b>&amp;</b>",
]  # fmt: skip
NOTHING = ["", " ", "\n", "\u202e", "\u200b\u200d", "\u0301", "\ud800", "\u3164"]


@each_row(("name", "shown"), [*CLEANED, *((kept, kept) for kept in KEPT), *((none, "") for none in NOTHING)])
def test_a_name_is_shown_on_one_line_without_what_cannot_be_seen(name: str, shown: str) -> None:
    assert shown_name(name) == shown
    text = request_text("en", name).replace(FSI, "").replace(PDI, "")
    assert text == (f"New request from {shown}" if shown else "New request")


@given(st.text(alphabet=st.characters(codec=None, categories=["C", "Z", "M", "Lu", "Lo", "So"])))
def test_shown_peer_name_is_short_clean_and_stable(name: str) -> None:
    shown = shown_name(name)

    assert len(shown) <= 64
    assert shown == shown.strip()
    assert "  " not in shown
    assert not any(unicodedata.category(each) in ("Cc", "Cs", "Co", "Zl", "Zp") for each in shown)
    assert not any(unicodedata.category(each) == "Cf" and each not in "\u200c\u200d" for each in shown)
    assert shown_name(shown) == shown


CODER, GERMANY, FAMILY = "\U0001f469\u200d\U0001f4bb", "\U0001f1e9\U0001f1ea", "\U0001f469\u200d" * 100
CUT = [
    (0, "a" * 65, "a" * 63), (62, " bcd", ""), (62, "e\u0301bc", ""), (61, "e\u0301bc", "e\u0301"),
    (62, "\U0001f44d\U0001f3fdbc", ""), (61, CODER + "bc", ""), (62, CODER + "bc", ""),
    (62, GERMANY + "bc", ""), (61, GERMANY + "bc", GERMANY), (0, GERMANY * 40, GERMANY * 31),
    (61, "\u0915\u094d\u0937bc", ""), (62, "\u0e19\u0e33bc", ""), (62, "\u1112\u1161\u11abbc", ""),
    (0, "\u4e2d" * 100_000, "\u4e2d" * 63), (0, FAMILY + "x", FAMILY[:63]),
]  # fmt: skip
"""So many letters, what follows them, and as much of it as stays."""


@each_row(("letters", "rest", "left"), CUT)
def test_a_long_name_is_cut_between_characters(letters: int, rest: str, left: str) -> None:
    whole, kept = "a" * letters + rest, "a" * letters + left + "\u2026"
    assert shown_name("a" * 64) == "a" * 64
    assert shown_name(whole) == kept
    assert request_text("en", whole) == f"New request from {kept}"


def test_a_name_is_isolated_where_it_may_run_the_other_way_and_always_in_right_to_left_text() -> None:
    for name in ("Uniswap", "1inch", "Caf\u00e9 (v2)", "\u4e2d\u6587", "\U0001f984", "\u043c\u0438\u0440"):
        assert request_text("de", name) == f"Neue Anfrage von {name}"
    others = [ALIF_BA, "\u05d0", "Pay \u05d0", "\u0661\u0662", "\u07c1", "\U0001e900", "\u05ff"]
    in_text = [("hi", other) for other in others]
    in_text += [(tag, name) for tag in RIGHT_TO_LEFT for name in ("Uniswap", "1inch", ALIF_BA, "!?")]
    for tag, name in in_text:
        assert request_text(tag, name) == TEXTS[tag].with_name.replace(NAME, f"{FSI}{name}{PDI}")


@given(
    st.sampled_from(sorted(TEXTS)),
    st.text(alphabet="\u2066\u2067\u2068\u2069\u202a\u202b\u202c\u202d\u202eab\u05d0"),
)
def test_no_name_can_close_or_open_an_isolate_of_its_own(tag: str, name: str) -> None:
    text = request_text(tag, name)
    assert text.count(FSI) == text.count(PDI) <= 1
    assert not set(text) & set("\u2066\u2067\u202a\u202b\u202c\u202d\u202e")


def test_a_name_is_not_looked_for_behind_a_thousand_hidden_characters_and_is_cut_in_its_isolate() -> None:
    assert request_text("en", "\u200b" * 1023 + "Uniswap") == "New request from U"
    assert request_text("en", "\u200b" * 1024 + "Uniswap") == "New request"
    assert request_text("ar", "a" * 100).endswith("a\u2026" + PDI)
