"""Bytes are read as a browser would read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from venus_edge.sources.charset import codec_of, decode

ZH = "<p>克雷翁灯塔于一九一六年首次点亮，塔高四十一米，位于布列塔尼海岸附近的礁石上。</p>" * 3
TW = "<p>克雷翁燈塔於一九一六年首次點亮，塔高四十一公尺，位於布列塔尼海岸附近的礁石上。</p>" * 3
JA = "<p>潮位観測所は一九一六年に設置され、記録は港湾局の台帳に残る。①㈱髙橋</p>" * 3
KO = "<p>크레온 등대는 1916년에 처음 점등되었으며 높이는 41미터이다.</p>" * 3
RU = "<p>Маяк Кереон был впервые зажжён в 1916 году, его высота сорок один метр.</p>" * 3
PL = "<p>Latarnia morska została zapalona po raz pierwszy w 1916 roku, jej wysokość wynosi źdźbło mniej.</p>"
EL = "<p>Ο φάρος άναψε για πρώτη φορά το 1916 και έχει ύψος σαράντα ένα μέτρα.</p>" * 3
FR = "<p>“Le phare” de Kéréon fut allumé en 1916 – 5 € l’entrée…</p>"


def html(head: str, body: str, codec: str) -> bytes:
    return f"<html><head>{head}</head><body>{body}</body></html>".encode(codec)


STYLE = "<style>" + "a{b:c}" * 400 + "</style>"
CASES = {  # name: (bytes, Content-Type, text that must appear)
    "gb2312 means gb18030": (html("<meta charset=gb2312>", ZH + "喆镕", "gbk"), "text/html", "喆镕"),
    "gb18030 beyond gbk": (html("<meta charset=gb2312>", ZH + "𠮷㐀", "gb18030"), "text/html", "𠮷㐀"),
    "a wrong header": (html("<meta charset=gbk>", ZH, "gbk"), "text/html; charset=utf-8", "灯塔"),
    "a wrong meta": (html("<meta charset=gbk>", ZH, "utf-8"), "text/html; charset=utf-8", "灯塔"),
    "two wrong claims": (html("<meta charset=gbk>", ZH, "utf-8"), "text/html; charset=big5", "灯塔"),
    "nothing said, GBK": (html("", ZH, "gbk"), "text/html", "灯塔"),
    "nothing said, short GBK": (html("", "<p>灯塔的高度是四十一米。</p>", "gbk"), "", "灯塔的高度"),
    "nothing said, Big5": (html("", TW, "big5"), "", "燈塔"),
    "nothing said, EUC-JP": (html("", JA.split("①", maxsplit=1)[0], "euc_jp"), "", "観測所"),
    "nothing said, Shift_JIS": (html("", JA, "cp932"), "", "観測所"),
    "nothing said, EUC-KR": (html("", KO, "euc_kr"), "", "등대는"),
    "nothing said, windows-1251": (html("", RU, "cp1251"), "", "Маяк"),
    "nothing said, KOI8-R": (html("", RU, "koi8-r"), "", "Маяк"),
    "nothing said, windows-1253": (html("", EL, "cp1253"), "", "φάρος"),
    "nothing said, windows-1252": (html("", FR, "cp1252"), "", "“Le phare” de Kéréon"),
    "by the language, Polish": (b"<html lang=pl>" + PL.encode("iso8859-2"), "", "wysokość"),
    "by the language, Taiwan": (b"<html lang='zh-Hant-TW'>" + "<p>燈塔</p>".encode("big5"), "", "燈塔"),
    "by the language, Korean": (b'<html lang="ko">' + "<p>등대</p>".encode("euc_kr"), "", "등대"),
    "shift_jis means cp932": (html("<meta charset=Shift_JIS>", JA, "cp932"), "text/html", "㈱髙橋"),
    "iso-2022-jp": (html("<meta charset=iso-2022-jp>", "<p>観測所</p>", "iso2022_jp"), "text/html", "観測所"),
    "euc-kr means cp949": (html("<meta charset=euc-kr>", KO + "똠", "cp949"), "text/html", "똠"),
    "big5 with Hong Kong's": (html("<meta charset=big5>", TW + "嘅咗", "big5hkscs"), "text/html", "嘅咗"),
    "windows-874": (html("<meta charset=tis-620>", "<p>ประภาคาร</p>", "cp874"), "text/html", "ประภาคาร"),
    "latin-1 means windows-1252": (html("", FR, "cp1252"), "text/html; charset=iso-8859-1", "– 5 €"),
    "UTF-8 under latin-1": (html("<meta charset=utf-8>", FR, "utf-8"), "text/html; charset=ISO-8859-1", "– 5 €"),
    "UTF-8 said by nobody": (html("", "<p>Kéréon</p>" * 4, "utf-8"), "", "Kéréon"),
    "one accent in UTF-8": (html("", "<p>Kéréon</p>", "utf-8"), "", "Kéréon"),
    "a late meta": (html(STYLE + "<meta charset=gbk>", ZH, "gbk"), "text/html", "灯塔"),
    "a meta in a comment": (html("<!-- <meta charset=big5> --><meta charset=gbk>", ZH, "gbk"), "text/html", "灯塔"),
    "a meta in a script": (html("<script>'<meta charset=big5>'</script>", ZH, "gbk"), "text/html", "灯塔"),
    "a label with more": (html("<meta charset='utf-8, ie=edge'>", FR, "utf-8"), "text/html; charset=utf8mb4", "Kéréon"),
    "quotes and capitals": (html("", ZH, "gbk"), 'text/html; Charset="GBK"', "灯塔"),
    "http-equiv": (
        html("<META HTTP-EQUIV='Content-Type' CONTENT='text/html; charset=gbk'>", ZH, "gbk"),
        "text/html; charset=utf-8",
        "灯塔",
    ),
    "an XML declaration": (b'<?xml version="1.0" encoding="gbk"?>' + ZH.encode("gbk"), "application/xml", "灯塔"),
    "UTF-16 with a mark": (html("", ZH, "utf-16"), "text/html", "灯塔"),
    "UTF-16 without": (html("", ZH + FR * 9, "utf-16-le"), "text/html", "灯塔"),
    "UTF-16 by the header": (html("", ZH, "utf-16-le"), "text/html; charset=UTF-16LE", "灯塔"),
    "UTF-16, the other way round": (html("", FR, "utf-16-be"), "text/html", "Kéréon"),
    "utf-16 in a readable meta": (html("<meta charset=utf-16>", ZH, "utf-8"), "text/html", "灯塔"),
    "UTF-32": (b"\xff\xfe\0\0" + ZH.encode("utf-32-le"), "text/html", "灯塔"),
    "a mark over a meta": (b"\xef\xbb\xbf" + html("<meta charset=gbk>", ZH, "utf-8"), "text/html", "灯塔"),
    "a cut last character": (html("<meta charset=utf-8>", ZH, "utf-8") + b"\xe7\x81", "text/html", "灯塔"),
    "one damaged byte": (html("", ZH * 5, "utf-8").replace("塔".encode(), b"\xe5\xa1", 1), "", "灯塔"),
    "one damaged byte in GBK": (html("<meta charset=gbk>", ZH * 5, "gbk") + b"\xff", "", "灯塔"),
    "a label that nobody knows": (html("<meta charset=klingon>", ZH, "gbk"), "text/html; charset=x-none", "灯塔"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_read_right(name: str) -> None:
    body, content_type, expected = CASES[name]
    text, _ = decode(body, content_type)
    assert expected in text


def test_labels_are_the_browsers() -> None:
    labels = ("GB2312", " utf8 ", "latin1", "x-sjis", "ks_c_5601-1987", "utf-7", "rot13", "idna", "")
    expected = ["gb18030", "utf-8", "cp1252", "cp932", "cp949", None, None, None, None]
    assert [codec_of(label) for label in labels] == expected


@given(st.binary(max_size=400), st.text(max_size=40))
def test_no_bytes_raise(body: bytes, content_type: str) -> None:
    assert isinstance(decode(body, content_type)[0], str)


SAID = {
    "zh": "克雷翁灯塔于一九一六年首次点亮，塔高四十一米，位于布列塔尼海岸附近的礁石上。",
    "zh-TW": "克雷翁燈塔於一九一六年首次點亮，塔高四十一公尺，位於布列塔尼海岸附近的礁石上。",
    "ja": "潮位観測所は一九一六年に設置され、記録は港湾局の台帳に残る。灯台の高さは四十一メートルである。",
    "ko": "크레온 등대는 1916년에 처음 점등되었으며 높이는 41미터이고 해안 근처의 암초 위에 있다.",
    "ru": "Маяк Кереон был впервые зажжён в 1916 году, его высота сорок один метр, он стоит на рифе.",
    "uk": "Маяк Кереон уперше запалили 1916 року, його висота сорок один метр, він стоїть на рифі.",
    "pl": "Latarnia morska została zapalona po raz pierwszy w 1916 roku, jej wysokość to źdźbło mniej.",
    "cs": "Maják byl poprvé rozsvícen v roce 1916, jeho výška je čtyřicet jedna metrů a stojí na útesu.",
    "el": "Ο φάρος άναψε για πρώτη φορά το 1916 και έχει ύψος σαράντα ένα μέτρα.",
    "tr": "Deniz feneri ilk kez 1916 yılında yakıldı, yüksekliği kırk bir metredir, kıyıya yakındır.",
    "he": "המגדלור הודלק לראשונה בשנת 1916, גובהו ארבעים ואחד מטרים והוא עומד על שונית.",
    "ar": "أضيئت المنارة لأول مرة عام 1916 ويبلغ ارتفاعها واحدا وأربعين مترا وتقف على شعاب.",
    "lt": "Švyturys pirmą kartą įžiebtas 1916 metais, jo aukštis keturiasdešimt vienas metras.",
    "th": "ประภาคารถูกจุดครั้งแรกในปี 1916 มีความสูงสี่สิบเอ็ดเมตร",
    "fr": "Le phare fut allumé pour la première fois en 1916 – « déjà » à 5 €.",
}
# label, the codec of the bytes, the language; then where the label is left out and the page is still read right: by
# nothing but its bytes ("b"), by its language ("l")
LABELS = """
gb2312 gbk zh bl | gbk gbk zh bl | x-gbk gbk zh bl | gb18030 gb18030 zh bl | big5 big5 zh-TW bl
big5-hkscs big5hkscs zh-TW bl | shift_jis cp932 ja bl | x-sjis cp932 ja bl | windows-31j cp932 ja bl
euc-jp euc_jp ja bl | iso-2022-jp iso2022_jp ja bl | euc-kr cp949 ko bl | ks_c_5601-1987 cp949 ko bl
windows-949 cp949 ko bl | windows-1250 cp1250 pl l | windows-1250 cp1250 cs l | iso-8859-2 iso8859-2 pl l
iso-8859-2 iso8859-2 cs l | windows-1251 cp1251 ru bl | windows-1251 cp1251 uk bl | koi8-r koi8-r ru bl
koi8-u koi8-u uk bl | iso-8859-5 iso8859-5 ru bl | ibm866 cp866 ru bl | x-mac-cyrillic mac-cyrillic ru bl
windows-1252 cp1252 fr bl | latin1 cp1252 fr bl | iso-8859-1 cp1252 fr bl | us-ascii cp1252 fr bl
windows-1253 cp1253 el bl | windows-1254 cp1254 tr bl | iso-8859-9 cp1254 tr bl | latin5 cp1254 tr bl
windows-1255 cp1255 he bl | iso-8859-8-i iso8859-8 he bl | windows-1256 cp1256 ar l | iso-8859-6 iso8859-6 ar -
windows-1257 cp1257 lt l | windows-874 cp874 th bl | tis-620 cp874 th bl | utf-8 utf-8 zh bl | utf8 utf-8 fr bl
utf-16le utf-16-le zh bl | utf-16be utf-16-be ru bl
"""
ROWS = [tuple(row.split()) for row in LABELS.strip().replace("\n", "|").split("|")]


@pytest.mark.parametrize(("label", "codec", "language", "without"), ROWS)
def test_every_label_is_read_wherever_it_stands(label: str, codec: str, language: str, without: str) -> None:
    said = f"<p>{SAID[language]}</p>" * 3
    named = {
        "header": ("", f"text/html; charset={label}"),
        "meta": (f'<meta charset="{label}">', "text/html"),
        "http-equiv": (f"<meta http-equiv=content-type content='text/html; charset={label.upper()}'>", "text/html"),
        "against a header of UTF-8": (f"<meta charset={label}>", "text/html; charset=utf-8"),
        "against a header of Latin-1": (f"<meta charset={label}>", "text/html; charset=ISO-8859-1"),
        "against a meta of UTF-8": ("<meta charset=utf-8>", f"text/html; charset={label}"),
    }
    pages = {way: (html(head, said, codec), header) for way, (head, header) in named.items()}
    if "b" in without:
        pages["bytes"] = (html("", said, codec), "text/html")
    if "l" in without:
        pages["language"] = (f"<html lang={language}><body>{said}</body></html>".encode(codec), "text/html")
    assert [way for way, page in pages.items() if SAID[language] not in decode(*page)[0]] == []
