"""The text of a push about a new request, in each language.

A name is never inflected: in languages where an ending, an article or an elision would depend on the name,
the sentence avoids it ("sent by", "sender:"). `{name}` occurs once in it. The anonymous form is for a peer
without a name. Tags are written as RFC 5646 (section 2.1.1) recommends.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class RequestText:
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
