"""The text of a push in the language of its client, and the content of a push as a message of the outbox."""

import re
from itertools import groupby, islice
from typing import Any, Final, NamedTuple
from unicodedata import bidirectional, category, combining

import orjson

from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.push.models import PushNotice, Registration

REQUEST = "request"
"""The `event` of a notice about a new request on the client's topic."""

PUSH = Purpose("push")
"""The purpose of a push to a registered client: its subject is the client's topic."""


# The text of a push about a new request, in each language.
#
# A name is never inflected: in languages where an ending, an article or an elision would depend on the name,
# the sentence avoids it ("sent by", "sender:"). `{name}` occurs once in it. The anonymous form is for a peer
# without a name. Tags are written as RFC 5646 (section 2.1.1) recommends.


class RequestText(NamedTuple):
    """The sentence of one language, with and without a name."""

    with_name: str
    anonymous: str


NAME: Final = "{name}"
LAST_RESORT: Final = "en"
RIGHT_TO_LEFT: Final = frozenset({"ar", "ckb", "fa", "he", "ps", "ur", "yi"})

TEXTS: Final = {
    "af": RequestText("Nuwe versoek van {name}", "Nuwe versoek"),  # Afrikaans
    "am": RequestText("ከ{name} የመጣ አዲስ ጥያቄ", "አዲስ ጥያቄ"),  # አማርኛ
    "ar": RequestText("طلب جديد من {name}", "طلب جديد"),  # العربية
    "as": RequestText("{name}-ৰ পৰা নতুন অনুৰোধ", "নতুন অনুৰোধ"),  # অসমীয়া
    "az": RequestText("{name} tərəfindən yeni sorğu", "Yeni sorğu"),  # azərbaycan
    "be": RequestText("Новы запыт ад {name}", "Новы запыт"),  # беларуская
    "bg": RequestText("Нова заявка от {name}", "Нова заявка"),  # български
    "bn": RequestText("{name}-এর কাছ থেকে নতুন অনুরোধ", "নতুন অনুরোধ"),  # বাংলা
    "bs": RequestText("Novi zahtjev od {name}", "Novi zahtjev"),  # bosanski
    "ca": RequestText("Nova sol·licitud enviada per {name}", "Nova sol·licitud"),  # català
    "ckb": RequestText("داواکاریی نوێ لە {name}", "داواکاریی نوێ"),  # کوردیی ناوەندی
    "cnr": RequestText("Novi zahtjev od {name}", "Novi zahtjev"),  # crnogorski
    "cs": RequestText("Nový požadavek od {name}", "Nový požadavek"),  # čeština
    "cy": RequestText("Cais newydd gan {name}", "Cais newydd"),  # Cymraeg
    "da": RequestText("Ny anmodning fra {name}", "Ny anmodning"),  # dansk
    "de": RequestText("Neue Anfrage von {name}", "Neue Anfrage"),  # Deutsch
    "el": RequestText("Νέο αίτημα από {name}", "Νέο αίτημα"),  # Ελληνικά
    "en": RequestText("New request from {name}", "New request"),  # English
    "eo": RequestText("Nova peto de {name}", "Nova peto"),  # Esperanto
    "es": RequestText("Nueva solicitud de {name}", "Nueva solicitud"),  # español
    "et": RequestText("Uus taotlus saatjalt {name}", "Uus taotlus"),  # eesti
    "eu": RequestText("Eskaera berria. Igorlea: {name}", "Eskaera berria"),  # euskara
    "fa": RequestText("درخواست جدید از {name}", "درخواست جدید"),  # فارسی
    "fi": RequestText("Uusi pyyntö lähettäjältä {name}", "Uusi pyyntö"),  # suomi
    "fil": RequestText("Bagong kahilingan mula sa {name}", "Bagong kahilingan"),  # Filipino
    "fr": RequestText("Nouvelle demande envoyée par {name}", "Nouvelle demande"),  # français
    "fy": RequestText("Nij fersyk fan {name}", "Nij fersyk"),  # Frysk
    "ga": RequestText("Iarratas nua ó {name}", "Iarratas nua"),  # Gaeilge
    "gd": RequestText("Iarrtas ùr bho {name}", "Iarrtas ùr"),  # Gàidhlig
    "gl": RequestText("Nova solicitude de {name}", "Nova solicitude"),  # galego
    "gu": RequestText("{name} તરફથી નવી વિનંતી", "નવી વિનંતી"),  # ગુજરાતી
    "ha": RequestText("Sabuwar buƙata daga {name}", "Sabuwar buƙata"),  # Hausa
    "he": RequestText("בקשה חדשה מאת {name}", "בקשה חדשה"),  # עברית
    "hi": RequestText("{name} की ओर से नया अनुरोध", "नया अनुरोध"),  # हिन्दी
    "hr": RequestText("Novi zahtjev od {name}", "Novi zahtjev"),  # hrvatski
    "hu": RequestText("Új kérés tőle: {name}", "Új kérés"),  # magyar
    "hy": RequestText("Նոր հարցում {name}-ից", "Նոր հարցում"),  # հայերեն
    "id": RequestText("Permintaan baru dari {name}", "Permintaan baru"),  # Indonesia
    "ig": RequestText("Arịrịọ ọhụrụ sitere na {name}", "Arịrịọ ọhụrụ"),  # Igbo
    "is": RequestText("Ný beiðni frá {name}", "Ný beiðni"),  # íslenska
    "it": RequestText("Nuova richiesta da {name}", "Nuova richiesta"),  # italiano
    "ja": RequestText("{name}からの新しいリクエスト", "新しいリクエスト"),  # 日本語
    "jv": RequestText("Panjalukan anyar saka {name}", "Panjalukan anyar"),  # Jawa
    "ka": RequestText("ახალი მოთხოვნა გამომგზავნისგან: {name}", "ახალი მოთხოვნა"),  # ქართული
    "kk": RequestText("{name} жіберген жаңа сұрау", "Жаңа сұрау"),  # қазақ тілі
    "km": RequestText("សំណើថ្មីពី {name}", "សំណើថ្មី"),  # ខ្មែរ
    "kn": RequestText("{name} ಕಡೆಯಿಂದ ಹೊಸ ವಿನಂತಿ", "ಹೊಸ ವಿನಂತಿ"),  # ಕನ್ನಡ
    "ko": RequestText("{name}에서 보낸 새 요청", "새 요청"),  # 한국어
    "ku": RequestText("Daxwaza nû ji {name}", "Daxwaza nû"),  # kurdî (kurmancî)
    "ky": RequestText("{name} жөнөткөн жаңы сурам", "Жаңы сурам"),  # кыргызча
    "lb": RequestText("Nei Ufro vun {name}", "Nei Ufro"),  # Lëtzebuergesch
    "lo": RequestText("ຄຳຂໍໃໝ່ຈາກ {name}", "ຄຳຂໍໃໝ່"),  # ລາວ
    "lt": RequestText("Nauja užklausa nuo {name}", "Nauja užklausa"),  # lietuvių
    "lv": RequestText("Jauns pieprasījums no {name}", "Jauns pieprasījums"),  # latviešu
    "mk": RequestText("Ново барање од {name}", "Ново барање"),  # македонски
    "ml": RequestText("{name} അയച്ച പുതിയ അഭ്യർത്ഥന", "പുതിയ അഭ്യർത്ഥന"),  # മലയാളം
    "mn": RequestText("Шинэ хүсэлт. Илгээгч: {name}", "Шинэ хүсэлт"),  # монгол
    "mr": RequestText("{name} कडून नवीन विनंती", "नवीन विनंती"),  # मराठी
    "ms": RequestText("Permintaan baharu daripada {name}", "Permintaan baharu"),  # Melayu
    "mt": RequestText("Talba ġdida mingħand {name}", "Talba ġdida"),  # Malti
    "my": RequestText("{name} ထံမှ တောင်းဆိုမှုအသစ်", "တောင်းဆိုမှုအသစ်"),  # မြန်မာ
    "nb": RequestText("Ny forespørsel fra {name}", "Ny forespørsel"),  # norsk bokmål
    "ne": RequestText("{name} बाट नयाँ अनुरोध", "नयाँ अनुरोध"),  # नेपाली
    "nl": RequestText("Nieuw verzoek van {name}", "Nieuw verzoek"),  # Nederlands
    "nn": RequestText("Ny førespurnad frå {name}", "Ny førespurnad"),  # norsk nynorsk
    "or": RequestText("{name} ପକ୍ଷରୁ ନୂଆ ଅନୁରୋଧ", "ନୂଆ ଅନୁରୋଧ"),  # ଓଡ଼ିଆ
    "pa": RequestText("{name} ਵੱਲੋਂ ਨਵੀਂ ਬੇਨਤੀ", "ਨਵੀਂ ਬੇਨਤੀ"),  # ਪੰਜਾਬੀ
    "pl": RequestText("Nowa prośba od {name}", "Nowa prośba"),  # polski
    "ps": RequestText("له {name} څخه نوې غوښتنه", "نوې غوښتنه"),  # پښتو
    "pt": RequestText("Novo pedido de {name}", "Novo pedido"),  # português
    "pt-BR": RequestText("Nova solicitação de {name}", "Nova solicitação"),  # português (Brasil)
    "ro": RequestText("Cerere nouă de la {name}", "Cerere nouă"),  # română
    "ru": RequestText("Новый запрос от {name}", "Новый запрос"),  # русский
    "si": RequestText("{name} වෙතින් නව ඉල්ලීමක්", "නව ඉල්ලීමක්"),  # සිංහල
    "sk": RequestText("Nová požiadavka od {name}", "Nová požiadavka"),  # slovenčina
    "sl": RequestText("Nova zahteva od {name}", "Nova zahteva"),  # slovenščina
    "so": RequestText("Codsi cusub oo ka yimid {name}", "Codsi cusub"),  # Soomaali
    "sq": RequestText("Kërkesë e re nga {name}", "Kërkesë e re"),  # shqip
    "sr": RequestText("Нови захтев од {name}", "Нови захтев"),  # српски
    "sr-Latn": RequestText("Novi zahtev od {name}", "Novi zahtev"),  # srpski
    "sv": RequestText("Ny förfrågan från {name}", "Ny förfrågan"),  # svenska
    "sw": RequestText("Ombi jipya kutoka kwa {name}", "Ombi jipya"),  # Kiswahili
    "ta": RequestText("{name} அனுப்பிய புதிய கோரிக்கை", "புதிய கோரிக்கை"),  # தமிழ்
    "te": RequestText("{name} నుండి కొత్త అభ్యర్థన", "కొత్త అభ్యర్థన"),  # తెలుగు
    "tg": RequestText("Дархости нав аз {name}", "Дархости нав"),  # тоҷикӣ
    "th": RequestText("คำขอใหม่จาก {name}", "คำขอใหม่"),  # ไทย
    "tr": RequestText("{name} tarafından gönderilen yeni istek", "Yeni istek"),  # Türkçe
    "uk": RequestText("Новий запит від {name}", "Новий запит"),  # українська
    "ur": RequestText("{name} کی طرف سے نئی درخواست", "نئی درخواست"),  # اردو
    "uz": RequestText("{name} yuborgan yangi soʻrov", "Yangi soʻrov"),  # o'zbek
    "vi": RequestText("Yêu cầu mới từ {name}", "Yêu cầu mới"),  # Tiếng Việt
    "xh": RequestText("Isicelo esitsha esivela ku-{name}", "Isicelo esitsha"),  # isiXhosa
    "yi": RequestText("נײַע בקשה פֿון {name}", "נײַע בקשה"),  # ייִדיש
    "yo": RequestText("Ìbéèrè tuntun láti ọ̀dọ̀ {name}", "Ìbéèrè tuntun"),  # Yorùbá
    "zh-Hans": RequestText("来自 {name} 的新请求", "新请求"),  # 简体中文
    "zh-Hant": RequestText("來自 {name} 的新請求", "新請求"),  # 繁體中文
    "zu": RequestText("Isicelo esisha esivela ku-{name}", "Isicelo esisha"),  # isiZulu
}

# The text of a push in the client's language.
#
# Matching is the lookup of RFC 4647 (section 3.4): the most specific text, then the base language, then
# English. It also accepts the forms that clients really send: underscores, POSIX locales, the forms of Java
# and .NET, retired codes, three-letter codes, an Accept-Language list. The name is untrusted input that is
# shown on a lock screen: it must not break the line, hide characters or reverse the sentence (UAX #9).

LANGUAGE_READ_CHARACTERS: Final = 256
NAME_READ_CHARACTERS: Final = 1024
NAME_SHOWN_CHARACTERS: Final = 64  # code points, including the ellipsis
CLUSTER_MAX_CHARACTERS: Final = 16  # code points of the longest user-perceived character
MARKS_MAX: Final = 8  # in a row; more would cover the lines above and below

ELLIPSIS: Final = "\u2026"
FIRST_STRONG_ISOLATE: Final = "\u2068"
POP_DIRECTIONAL_ISOLATE: Final = "\u2069"
JOINERS: Final = "\u200c\u200d"


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split(":") for pair in text.split())


# Other codes of a language: codes that the subtag registry has retired, members of a macrolanguage and the
# macrolanguage itself, and tags from before RFC 4646. The part after "-" in a value is a script.
_RENAMED: Final = _pairs("""
    iw:he in:id ji:yi jw:jv mo:ro tl:fil no:nb no-bok:nb no-nyn:nn sh:sr-Latn
    cmn:zh yue:zh-Hant nan:zh-Hant hak:zh-Hant wuu:zh-Hans zh-yue:zh-Hant zh-min:zh-Hant zh-nan:zh-Hant
    zh-hak:zh-Hant zh-hakka:zh-Hant zh-cht:zh-Hant zh-chs:zh-Hans
    arb:ar arz:ar azj:az ekk:et gsw:de kmr:ku khk:mn lvs:lv npi:ne ory:or pes:fa prs:fa swh:sw uzn:uz
    ydd:yi zsm:ms als:sq
""")

# Three-letter codes of ISO 639-2 and 639-3; both codes of a language that has two.
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
# The tag of the text for a language (and script) without a text under its own tag.
_STANDS_FOR: Final = {"zh": "zh-Hans", "ku-Arab": "ckb"}
_POSIX_SCRIPTS: Final = {"latin": "latn", "cyrillic": "cyrl"}

_SCRIPT: Final = re.compile("[a-z]{4}")
_REGION: Final = re.compile("[a-z]{2}|[0-9]{3}")


class _Tag(NamedTuple):
    language: str
    script: str
    region: str


def request_text(language: str, peer_name: str) -> str:
    """A safe line in the language: "New request from {peer_name}", without a name to show "New request"."""
    tag = match_language(language)
    name = shown_name(peer_name)
    if not name:
        return TEXTS[tag].anonymous
    before, _, after = TEXTS[tag].with_name.partition(NAME)
    # The name's direction could affect the sentence (UAX #9, sections 2.4 and 2.7). Characters that Python
    # does not know yet may be right-to-left.
    if tag in RIGHT_TO_LEFT or any(bidirectional(each) in ("R", "AL", "AN", "") for each in name):
        name = FIRST_STRONG_ISOLATE + name + POP_DIRECTIONAL_ISOLATE
    return before + name + after


def match_language(language: str) -> str:
    """The tag in TEXTS of the first known language in a list with commas, or English. Weights are ignored."""
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
    """Language, script and region of a client's language tag, in the letter case of TEXTS; "" if missing.
    Variants, extensions and private use (after a single letter, RFC 5646 section 2.2.6) are ignored. A script
    counts at any position: Java writes `zh_TW_#Hant`, POSIX `sr_RS.UTF-8@latin`.
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


# Invisible characters whose category is a letter, a symbol, a mark or unassigned: fillers, the Braille
# blank, code points that are reserved for invisible characters.
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u2065\u2800\u3164\uffa0\ufdd0-\ufdef\ufff0-\ufff8"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)
# Joiners are part of words in Persian and in the scripts of India and of emoji; next to ASCII they only hide.
_IDLE_JOINERS: Final = re.compile(
    f"(?<![^\\x00-\\x7f{JOINERS}])[{JOINERS}]+|[{JOINERS}]+(?![^\\x00-\\x7f{JOINERS}])"
)
# Characters that extend the one before them and are not marks: Thai and Lao AM, Hangul vowels and finals,
# joiners, half-width sound marks, skin tones (from the grapheme clusters of UAX #29).
_CONTINUING: Final = re.compile(f"[\u0e33\u0eb3\u1160-\u11ff{JOINERS}\uff9e\uff9f\U0001f3fb-\U0001f3ff]")
_REGIONAL_INDICATORS: Final = re.compile("[\U0001f1e6-\U0001f1ff]*$")
_VIRAMA: Final = 9


def shown_name(peer_name: str) -> str:
    """Return a name for display: one line without hidden characters, at most 64 code points. Removed:
    controls, format characters (including all bidi controls and tag characters), lone surrogates, private
    use, noncharacters, marks without a base character, marks beyond 8 in a row. Kept: joiners within a word.
    """
    seen = "".join(_seen(character) for character in peer_name[:NAME_READ_CHARACTERS])
    runs = groupby(" ".join(_IDLE_JOINERS.sub("", seen).split()), _is_mark)
    name = "".join("".join(islice(run, MARKS_MAX if are_marks else None)) for are_marks, run in runs)
    beginnings = (at for at, each in enumerate(name) if not (_is_mark(each) or each in (" ", *JOINERS)))
    name = name[next(beginnings, len(name)) :]
    if len(name) <= NAME_SHOWN_CHARACTERS:
        return name
    last = NAME_SHOWN_CHARACTERS - len(ELLIPSIS)
    places = range(last, last - CLUSTER_MAX_CHARACTERS, -1)
    end = next((place for place in places if not _is_within_character(name, place)), last)
    return name[:end].rstrip(" ") + ELLIPSIS


def _seen(character: str) -> str:
    if character.isspace():
        return " "
    if character in JOINERS:
        return character
    if category(character) in ("Cc", "Cf", "Cs", "Co") or ord(character) & 0xFFFE == 0xFFFE:
        return ""
    return "" if _INVISIBLE.match(character) else character


def _is_mark(character: str) -> bool:
    return category(character).startswith("M")


def _is_within_character(name: str, place: int) -> bool:
    """Whether a cut before `place` would divide a user-perceived character."""
    before, after = name[place - 1], name[place]
    if _is_mark(after) or _CONTINUING.match(after):
        return True
    if before in JOINERS or (combining(before) == _VIRAMA and after != " "):
        return True
    indicators = _REGIONAL_INDICATORS.search(name, 0, place)
    return bool(indicators and len(indicators[0]) % 2 and _REGIONAL_INDICATORS.fullmatch(name[place]))


_TEXTS = ("title", "body", "url")
_DATA_NAMES = {"id": "notification_id"}
"""Names that change in the data of a push, where `id` is the id of the push itself."""


def write_request(registration: Registration, message_id: str, client: str | None = None) -> OutgoingMessage:
    """The notice of a new request, in the client's language. `client` is the address that caused it."""
    topic, device = registration.topic, registration.address
    text = request_text(registration.language, registration.peer_name)
    notice = {
        "event": REQUEST,
        "title": shown_name(registration.peer_name) or text,
        "body": text,
        "topic": topic,
        "bridge": registration.bridge,
    }
    body = orjson.dumps(notice)
    return OutgoingMessage(message_id, device.url, body, PUSH, lane=device.lane, client=client, subject=topic)


def read_notice(message: OutgoingMessage) -> PushNotice:
    """The push of a notice that has a title and a body; its other members become data."""
    notice: dict[str, Any] = orjson.loads(message.body)
    others = {name: value for name, value in notice.items() if name not in _TEXTS and value is not None}
    data = {_DATA_NAMES.get(name, name): str(value) for name, value in others.items()}
    return PushNotice(message.message_id, notice["title"], notice["body"], notice.get("url"), data)
