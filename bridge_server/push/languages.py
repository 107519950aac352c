"""The text of a push in the client's language.

Matching is the lookup of RFC 4647 (section 3.4): the most specific text there is, then the base language,
then English. Around it, what clients really send: underscores, POSIX locales, Java's and .NET's spellings,
codes that were retired, three-letter codes, an Accept-Language list. The name comes from a stranger and is
shown on a lock screen: it may not break the line, hide characters or turn the sentence around (UAX #9).
"""

import re
from itertools import groupby, islice
from typing import Final, NamedTuple
from unicodedata import bidirectional, category, combining

from bridge_server.push.texts import LAST_RESORT, NAME, RIGHT_TO_LEFT, TEXTS

LANGUAGE_READ_CHARACTERS: Final = 256
NAME_READ_CHARACTERS: Final = 1024
NAME_SHOWN_CHARACTERS: Final = 64  # code points, the ellipsis among them
CLUSTER_MAX_CHARACTERS: Final = 16  # no character that people write has more code points
MARKS_MAX: Final = 8  # one upon another; more than any script stacks, and they would cover other lines

ELLIPSIS: Final = "\u2026"
FIRST_STRONG_ISOLATE: Final = "\u2068"
POP_DIRECTIONAL_ISOLATE: Final = "\u2069"
JOINERS: Final = "\u200c\u200d"


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split(":") for pair in text.split())


# Whole languages under another name: codes the subtag registry has retired, members and masters of a
# macrolanguage, and tags from before RFC 4646. What follows "-" in the value is a script.
_RENAMED: Final = _pairs("""
    iw:he in:id ji:yi jw:jv mo:ro tl:fil no:nb no-bok:nb no-nyn:nn sh:sr-Latn
    cmn:zh yue:zh-Hant nan:zh-Hant hak:zh-Hant wuu:zh-Hans zh-yue:zh-Hant zh-min:zh-Hant zh-nan:zh-Hant
    zh-hak:zh-Hant zh-hakka:zh-Hant zh-cht:zh-Hant zh-chs:zh-Hans
    arb:ar arz:ar azj:az ekk:et gsw:de kmr:ku khk:mn lvs:lv npi:ne ory:or pes:fa prs:fa swh:sw uzn:uz
    ydd:yi zsm:ms als:sq
""")

# ISO 639-2 and 639-3, for clients that do not shorten. Both codes where there are two.
_THREE_LETTERS: Final = _pairs("""
    afr:af amh:am ara:ar asm:as aze:az bel:be bul:bg ben:bn bos:bs cat:ca ces:cs cze:cs cym:cy wel:cy dan:da
    deu:de ger:de ell:el gre:el eng:en epo:eo spa:es est:et eus:eu baq:eu fas:fa per:fa fin:fi tgl:fil fra:fr
    fre:fr fry:fy gle:ga gla:gd glg:gl guj:gu hau:ha heb:he hin:hi hrv:hr hun:hu hye:hy arm:hy ind:id ibo:ig
    isl:is ice:is ita:it jpn:ja jav:jv kat:ka geo:ka kaz:kk khm:km kan:kn kor:ko kur:ku kir:ky ltz:lb lao:lo
    lit:lt lav:lv mkd:mk mac:mk mal:ml mon:mn mar:mr msa:ms may:ms mlt:mt mya:my bur:my nob:nb nor:nb nep:ne
    nld:nl dut:nl nno:nn ori:or pan:pa pol:pl pus:ps por:pt ron:ro rum:ro rus:ru sin:si slk:sk slo:sk slv:sl
    som:so sqi:sq alb:sq srp:sr swe:sv swa:sw tam:ta tel:te tgk:tg tha:th tur:tr ukr:uk urd:ur uzb:uz vie:vi
    xho:xh yid:yi yor:yo zho:zh chi:zh zul:zu
""")

# The script that a region writes, where it is not the language's usual one (CLDR, likely subtags).
_SCRIPT_OF_REGION: Final = _pairs("""
    zh-TW:Hant zh-HK:Hant zh-MO:Hant sr-ME:Latn ku-IQ:Arab ku-IR:Arab
""")
# The text for a language (and script) that has none under its own tag.
_STANDS_FOR: Final = {"zh": "zh-Hans", "ku-Arab": "ckb"}
_POSIX_SCRIPTS: Final = {"latin": "latn", "cyrillic": "cyrl"}

_SCRIPT: Final = re.compile("[a-z]{4}")
_REGION: Final = re.compile("[a-z]{2}|[0-9]{3}")


class _Tag(NamedTuple):
    language: str
    script: str
    region: str


def request_text(language: str, peer_name: str) -> str:
    """Return "New request from {peer_name}" in the language, on one line and safe to show.

    A name of which nothing can be shown gives the anonymous form, "New request". Neither argument can make
    it raise.
    """
    tag = match_language(language)
    name = shown_name(peer_name)
    if not name:
        return TEXTS[tag].anonymous
    before, _, after = TEXTS[tag].with_name.partition(NAME)
    return before + _isolated(name, within_right_to_left=tag in RIGHT_TO_LEFT) + after


def match_language(language: str) -> str:
    """Return the tag in TEXTS that serves the language best; English when none does.

    Of a list separated by commas, the first that is known; weights are not read.
    """
    for wish in language[:LANGUAGE_READ_CHARACTERS].split(","):
        tag = _lookup(_parsed(wish))
        if tag is not None:
            return tag
    return LAST_RESORT


def _lookup(wish: _Tag) -> str | None:
    language, _, region = wish
    script = wish.script or _SCRIPT_OF_REGION.get(f"{language}-{region}", "")
    for tag in (f"{language}-{script}", f"{language}-{region}", language):
        tag = _STANDS_FOR.get(tag, tag)
        if tag in TEXTS:
            return tag
    return None


def _parsed(wish: str) -> _Tag:
    """Language, script and region of what a client sent, in the case of the table; "" for what is not said.

    Variants are passed over, and extensions and private use (after a single letter, RFC 5646 section 2.2.6)
    are not read. A script counts wherever it stands: Java writes `zh_TW_#Hant`, POSIX `sr_RS.UTF-8@latin`.
    """
    locale, _, modifier = wish.partition(";")[0].strip().lower().partition("@")
    language, *rest = _renamed(re.split("[-_#]+", locale.partition(".")[0]))
    script = region = ""
    for subtag in [*rest, _POSIX_SCRIPTS.get(modifier.partition(".")[0], "")]:
        if len(subtag) == 1:
            break
        if _SCRIPT.fullmatch(subtag):
            script = subtag.title()
        elif not region and _REGION.fullmatch(subtag):
            region = subtag.upper()
    return _Tag(language, script, region)


def _renamed(subtags: list[str]) -> list[str]:
    first = _THREE_LETTERS.get(subtags[0], subtags[0])
    for known, rest in (("-".join([first, *subtags[1:2]]), subtags[2:]), (first, subtags[1:])):
        if known in _RENAMED:
            return [*_RENAMED[known].lower().split("-"), *rest]
    return [first, *subtags[1:]]


# What is shown as nothing although its category is a letter, a symbol, a mark or not assigned: fillers,
# the blank of Braille, places reserved for invisible characters.
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u2065\u2800\u3164\uffa0\ufdd0-\ufdef\ufff0-\ufff8"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)
# A joiner spells words in Persian and India's scripts and binds emoji; beside ASCII it only hides.
_IDLE_JOINERS: Final = re.compile(
    f"(?<![^\\x00-\\x7f{JOINERS}])[{JOINERS}]+|[{JOINERS}]+(?![^\\x00-\\x7f{JOINERS}])"
)
# Characters that continue the one before and are not marks: Thai and Lao AM, Hangul vowels and finals,
# joiners, half-width sound marks, skin tones (after the grapheme clusters of UAX #29).
_CONTINUING: Final = re.compile(f"[\u0e33\u0eb3\u1160-\u11ff{JOINERS}\uff9e\uff9f\U0001f3fb-\U0001f3ff]")
_REGIONAL_INDICATORS: Final = re.compile("[\U0001f1e6-\U0001f1ff]*$")
_VIRAMA: Final = 9


def shown_name(peer_name: str) -> str:
    """Return as much of a name as a notification can show: one line, nothing hidden, at most 64 code points.

    Dropped: controls, format characters (every bidi control and tag character among them), lone
    surrogates, private use, noncharacters, and marks with nothing to stand on or too many of them.
    Kept: joiners within a word.
    """
    seen = "".join(_seen(character) for character in peer_name[:NAME_READ_CHARACTERS])
    name = _with_few_marks(" ".join(_IDLE_JOINERS.sub("", seen).split()))
    start = next((at for at, character in enumerate(name) if _can_stand_first(character)), len(name))
    return _cut(name[start:])


def _seen(character: str) -> str:
    if character.isspace():
        return " "
    if character in JOINERS:
        return character
    hidden = (
        category(character) in ("Cc", "Cf", "Cs", "Co")
        or ord(character) & 0xFFFE == 0xFFFE
        or _INVISIBLE.match(character)
    )
    return "" if hidden else character


def _is_mark(character: str) -> bool:
    return category(character).startswith("M")


def _with_few_marks(name: str) -> str:
    runs = groupby(name, _is_mark)
    return "".join("".join(islice(run, MARKS_MAX if are_marks else None)) for are_marks, run in runs)


def _can_stand_first(character: str) -> bool:
    return not (_is_mark(character) or character == " " or character in JOINERS)


def _cut(name: str) -> str:
    if len(name) <= NAME_SHOWN_CHARACTERS:
        return name
    last = NAME_SHOWN_CHARACTERS - len(ELLIPSIS)
    places = range(last, last - CLUSTER_MAX_CHARACTERS, -1)
    end = next((place for place in places if not _is_within_character(name, place)), last)
    return name[:end].rstrip(" ") + ELLIPSIS


def _is_within_character(name: str, place: int) -> bool:
    """Whether a cut before `place` would divide what a reader takes for one character."""
    before, after = name[place - 1], name[place]
    if _is_mark(after) or _CONTINUING.match(after):
        return True
    if before in JOINERS or (combining(before) == _VIRAMA and after != " "):
        return True
    return _is_within_flag(name, place)


def _is_within_flag(name: str, place: int) -> bool:
    """Flags are pairs of regional indicators: an odd number before, and one more after, is half a flag."""
    indicators = _REGIONAL_INDICATORS.search(name, 0, place)
    return bool(indicators and len(indicators[0]) % 2 and _REGIONAL_INDICATORS.fullmatch(name[place]))


def _isolated(name: str, *, within_right_to_left: bool) -> str:
    """Keep the name's direction to itself where it could reach the sentence (UAX #9, sections 2.4 and 2.7).

    Characters that Python does not know yet may be right-to-left: they are isolated too.
    """
    if within_right_to_left or any(bidirectional(each) in ("R", "AL", "AN", "") for each in name):
        return FIRST_STRONG_ISOLATE + name + POP_DIRECTIONAL_ISOLATE
    return name
