"""The kinds of cases L01 to L05 of the local index, the cases whole and more of each kind: one table, kind -> outcome.

`python -m tests.bench.cases l` prints it. A query is asked of the same texts in three ways: the library; the command
line, of a corpus by name; the command line, of a folder. Archives are made by libzim, where it is installed.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from venus_edge.cli.app import cli
from venus_edge.corpus.index import Corpus
from venus_edge.corpus.store import Document, Writer
from venus_edge.errors import CorpusError

Text = tuple[str, str]  # title and text
Ask = Callable[[str], str]  # a query -> the title of the first hit, or what is said instead

NO_WORD = "It has no word to search for."
NOTHING = "No document has any of these words."


@cache
def home() -> Path:
    """A directory for all that is made here, gone with the process."""
    kept.append(tempfile.TemporaryDirectory(prefix="cases-l-"))
    return Path(kept[-1].name)


kept: list[tempfile.TemporaryDirectory[str]] = []


def venus(*arguments: str, name: str = "home") -> Result:
    environment = {f"VENUS_{kind}_DIR": str(home() / name / kind.lower()) for kind in ("CONFIG", "DATA", "CACHE")}
    return CliRunner(env=environment).invoke(cli, arguments)


# -- one set of texts, asked in several ways ---------------------------------------------------------------------------


@cache
def ways(texts: tuple[Text, ...]) -> dict[str, Ask]:
    """The texts as a corpus of the library, as one by name and as a folder."""
    name = f"t{abs(hash(texts))}"
    folder, rows = home() / "folders" / name, home() / f"{name}.jsonl"
    folder.mkdir(parents=True)
    with Writer(home() / f"{name}.sqlite") as writer, writer.batch():
        for number, (title, text) in enumerate(texts):
            writer.put(Document(f"https://x{number}.example/{number}", title, text))
            (folder / f"{number}.md").write_text(
                f"---\ntitle: {title}\nurl: https://x{number}.example/{number}\n---\n{text}", encoding="utf-8"
            )
    pages = [
        {"id": str(n), "url": f"https://x{n}.example/{n}", "title": t, "text": x} for n, (t, x) in enumerate(texts)
    ]
    rows.write_text("".join(json.dumps(page) + "\n" for page in pages))
    assert venus("corpus", "create", name, str(rows)).exit_code == 0
    corpus = Corpus(home() / f"{name}.sqlite")
    return {
        "library": lambda query: first(corpus, query),
        "by name": lambda query: told(venus("corpus", "search", name, query)),
        "folder": lambda query: told(venus("corpus", "search", str(folder), query)),
    }


def first(corpus: Corpus, query: str) -> str:
    found = corpus.search(query)
    return found.hits[0].title if found.hits else found.failure.detail if found.failure else ""


def told(result: Result) -> str:
    """The first line of what was found, or the reason at the end of the error."""
    if result.exit_code == 0:
        return result.stdout.splitlines()[0]
    return f"{result.exception!r}" if "Error" not in result.stderr else result.stderr.rstrip().rpartition(": ")[2]


def ask(texts: Sequence[Text], queries: Sequence[str], expected: str) -> str:
    """`expected` if every query comes to it in every way; else what comes instead."""
    others = [
        f"{way}, {query[:60]!r}: {outcome}"
        for query in queries
        for way, asked in ways(tuple(texts)).items()
        if (outcome := asked(query)) != expected
    ]
    return "; ".join(others[:5]) or expected


# -- L01: whatever is in a query --------------------------------------------------------------------------------------

LIGHT = (
    "Kereon light",
    "The Kereon lighthouse (built 1916) is state-of-the-art, uses a C++ controller & ships KRN-190416. Don't miss it. "
    "AND NOT OR NEAR.",
)
OTHER = ("Another page", "Nothing of the kind.")
SAFE = [LIGHT, OTHER]
CASE_L01 = [
    "KRN-190416", "state-of-the-art lighthouse", "C++ controller", "don't miss", "what is near?", "NOT lighthouse",
    "Kereon AND", "NEAR(a", "light NOT", "site:example.org lighthouse", '"unbalanced Kereon',
    '"Kereon lighthouse" 1916', "(built 1916", "{x} Kereon", "-1916", "release 20.04 Kereon", "body:lighthouse",
    "lighthouse*", "^Kereon", "Kereon\x00light",
]  # fmt: skip
NO_WORDS = [
    "", "   ", '"', "?!", "。，！？", "「」", "“”", "🙂", "👩\u200d🚀🗼", "\x00\x00", "\ud800", "\u200b", "…", "——",
    "()",
    "* *", "^", "~", "||", "&&", "#", "\n\t", "\u3000", "¿?", '"*"', "::", "©", "°", "++", "’", "\u0301", "\ufffd",
    "\u202e", "site:x0.example",
]  # fmt: skip
FTS5 = [
    "NEAR(Kereon lighthouse, 2)", 'NEAR("Kereon" lighthouse)', "{title body}: kereon", 'title : "Kereon"',
    "-title:x kereon",
    '"Kereon" + "lighthouse"', '"kereon"*', "^kereon AND (lighthouse OR", "words:kereon", "rowid:1 kereon",
    "rank:kereon",
    "kereon NOT NOT", "AND OR kereon", "((kereon", "kereon))", "title:zzz OR kereon", "beside:kereon",
    "NOT NOT kereon",
]  # fmt: skip
ENGINES = [
    "+Kereon -zebra", "kereon && light", "kereon || zebra", "!zebra Kereon", "Kereon~2", "Kereon^4 light",
    "intitle:kereon",
    "inurl:kereon", "filetype:pdf kereon", "after:2020 kereon", "define:kereon", "cache:x kereon", "lang:en kereon",
    '"kereon lighthouse"~3', "Kereon NEAR/3 lighthouse", "kereon W/5 lighthouse", "kereon AROUND(3) lighthouse",
    "kereon | lighthouse", "allintext: kereon", "kereon 1916..1920", "kereon:lighthouse", "[kereon TO zebra]",
    "/kereon/",
]  # fmt: skip
QUOTES = [
    "“Kereon lighthouse”", "„Kereon lighthouse“", "«Kereon lighthouse»", "‹Kereon lighthouse›", "「Kereon lighthouse」",
    "『Kereon lighthouse』", "《Kereon lighthouse》", "＂Kereon lighthouse＂", "‘Kereon lighthouse’", "'kereon'",
    "`kereon`",
    '""kereon""', '"" kereon', 'kereon"', "”kereon“", "don’t miss", "‘kereon", "「kereon",
]  # fmt: skip
CODE = [
    "Kereon;drop table words--", "kereon' OR '1'='1", "kereon\\", "%kereon%", "kereon -- x", "/* kereon */",
    "<kereon>",
    "{{kereon}}", "${kereon}", "<tool_call>kereon</tool_call>", "kereon LIMIT 1", "MATCH 'kereon'", "kereon=1;",
    "\\kereon\\",
]  # fmt: skip
UNSEEN = [
    "kereon\ud83d light", "\udc00kereon", "kereon\x07", "kereon\x1b[31m", "\x00kereon\x00", "kereon\ufeff",
    "\u202ekereon",
    "kereon\u200blight", "ke\u00adreon", "kereon\tlighthouse\n1916\r\n", "🙂 kereon 🗼", "kereon🗼lighthouse",
    "kereon\u2028x",
]  # fmt: skip
LONG = [
    "kereon " * 1_500, "x" * 5_000 + " kereon", "kereon " + "x" * 10_000, "word " * 1_990 + "kereon",
    " ".join(f"w{n}" for n in range(1_800)) + " kereon", "kereon " + " ".join(f"w{n}" for n in range(1_800)),
    "灯塔在哪里" * 2_000 + " kereon", '"' * 9_000 + "kereon", "(" * 9_990 + "kereon", "kereon" + "*" * 9_990,
]  # fmt: skip
SITES = [
    "site:x0.example kereon", "灯塔 site:x0.example kereon", "kereon site：x0.example", "kereon灯塔site:x0.example",
    "site:x0.example灯塔 kereon", "site:https://x0.example/a kereon", "SITE:X0.EXAMPLE kereon",
    "site: x0.example kereon",
    "(site:x0.example OR site:x1.example) kereon", "-site:x1.example kereon", "site:没有.中国 kereon", "site:kereon",
    "site: kereon", "site:elsewhere.example kereon",
]  # fmt: skip

# -- L02: words are alternatives ---------------------------------------------------------------------------------------

KEREON = ("Kereon light", "The Kereon lighthouse off Ushant was first lit in 1916. Height: 41 metres.")
LIGHTS = [KEREON, ("Ar Men", "Ar Men lighthouse, 1881, 37 metres."), ("Brest", "Port city in Brittany.")]
CASE_L02 = [
    "when was the Kereon lighthouse first lit", "Kereon lighthouse height metres wikipedia", "kereon OR zebra",
    "Kéréon phare hauteur", "lighthouses near Ushant",
]  # fmt: skip
INFLECTED = ["ushant lights", "lighting of kereon", "heights of Kereon's lights", "KEREON METRE", "Kereons lit first?"]
ONE_WORD = [
    "kereon", "zebra giraffe kereon okapi", "1916 zebra", "how come that nobody ever told us about Ushant",
    "克雷翁 Kereon 灯塔",
    "ケレオン kereon", "Leuchtturm Kéréon Höhe", "маяк Kereon",
]  # fmt: skip
OF_ONE = [query for query in ONE_WORD if "灯塔" not in query and "1916" not in query]  # those are in two articles
ASIA = [
    ("克雷翁灯塔", "克雷翁灯塔位于韦桑岛外海，1916年首次点亮，塔高41米。"),
    ("阿门灯塔", "阿门灯塔，1881年建成，高37米。"),
    ("ケレオン灯台", "ケレオン灯台は1916年に初点灯した。高さは41メートル。"),
    ("케레온 등대", "케레온 등대는 1916년에 처음 점등되었다. 높이는 41미터이다."),
]
CHINESE = [
    "克雷翁灯塔是什么时候首次点亮的？",
    "克雷翁 高度 维基百科",
    "请问克雷翁灯塔有多高",
    "韦桑岛 附近 灯塔",
    "克雷翁 OR 斑马",
    "克雷翁灯塔 height",
]
JAPANESE = [
    "ケレオン灯台はいつ初点灯しましたか",
    "ケレオン 高さ",
    "ｹﾚｵﾝ 灯台",
    "「初点灯した」ケレオン",
    "ケレオン OR シマウマ",
]
KOREAN = [
    "케레온 등대는 언제 점등되었나요?",
    "케레온 높이",
    "케레온등대",
    unicodedata.normalize("NFD", "케레온 등대"),
    "케레온 얼룩말",
]

# -- L03: every script, at any length ----------------------------------------------------------------------------------

SCRIPTS = [
    ("灯塔", "克雷翁灯塔于1916年首次点亮，塔高41米。使用lamp-ctl工具"),
    ("東京", "東京湾の潮位観測所"),
    ("서울", "서울의 조위 관측소"),
    ("Größe", "Größe naïve café Kéréon ﬁle Straße"),
]
CASE_L03 = {
    "灯塔": ["灯塔", "点亮", "灯", "克雷翁 高度", "lamp", "1916"],
    "東京": ["東京", "潮位"],
    "서울": ["관측소"],
    "Größe": ["cafe Kereon", "GRÖSSE", "file", "strasse"],
}
SINGLE = {"灯塔": ["塔", "亮", "高", "具"], "東京": ["湾", "の", "所"], "서울": ["소", "울", "조"]}
MIXED = {
    "灯塔": ["塔高41米", "1916年", "41", "４１米", "LAMP-CTL", "ｌａｍｐ", "lampctl", "灯塔lamp", "“首次点亮”",
    "「首次点亮」",
             "克雷翁灯塔有多高？", "lamp-ctl工具 怎么用"],
    "東京": ["東京湾の潮位", "『潮位観測所』", "観測所はどこ", "東京 tide"],
    "서울": ["서울 관측소 위치", "조위관측소", "관측", unicodedata.normalize("NFD", "관측소에서")],
    "Größe": [unicodedata.normalize("NFD", "naïve Café"), "ＦＩＬＥ", "ﬁle", "STRASSE", "Straße", "groesse", "NAIVE",
    "kéréon"],
}  # fmt: skip
FORMS = [
    ("accents", "Ångström Øresund Łódź Þór Æsir Œuvre İstanbul Nguyễn Đặng"), ("ligatures", "naïve ﬂuﬀy oﬃce"),
    ("half-width", "ﾊﾝｶｸ ｶﾀｶﾅ ｶﾞｲﾄﾞ"), ("full-width", "Ｆｕｌｌ　Ｗｉｄｔｈ　２０２４"), ("signs",
    "Ⅳ chapter ㎏ ㈜회사 ㍿"),
    ("soft", "a light\u00adhouse and a co\u2060operation"), ("variants", "葛\U000e0100城市の辻\ufe00"), ("rare",
    "𠮷野家 﨑"),
    ("stretched", "ســــلام"), ("marks", unicodedata.normalize("NFD", "crème brûlée ё")),
]  # fmt: skip
ASKED_FORMS = {
    "accents": ["angstrom", "oresund", "Lodz", "thor", "aesir", "oeuvre", "ISTANBUL", "nguyen", "Dang",
                unicodedata.normalize("NFD", "Nguyễn")],
    "ligatures": ["fluffy", "office", "naive"],
    "half-width": ["ハンカク", "カタカナ", "ガイド", "ｶﾞｲﾄﾞ", unicodedata.normalize("NFD", "ガイド")],
    "full-width": ["full width", "2024", "２０２４"],
    "signs": ["IV chapter", "kg", "회사", "株式会社"],
    "soft": ["lighthouse", "light\u00adhouse", "cooperation"],
    "variants": ["葛城", "葛城市", "辻"],
    "rare": ["𠮷野家", "𠮷", "野家", "﨑"],
    "stretched": ["سلام", "سَلَام"],
    "marks": ["creme brulee", "crème brûlée", "CRÈME", "е"],
}  # fmt: skip
NAMES = [
    ("c++", "C++ and Java"), ("c#", "C# code"), ("f#", "F# lang"), (".net", ".NET Core 8.0.1"), ("node",
    "Node.js v18.17.1"),
    ("at&t", "AT&T mobile"), ("ip", "TCP/IP over 192.168.0.1"), ("phone", "+33 1 42 68 53 00"), ("date",
    "2024-03-15 event"),
    ("doi", "10.1038/s41586-020-2649-2"), ("arxiv", "https://arxiv.org/abs/2307.09288"), ("water", "H2O and CO₂"),
    ("tocopherol", "α-tocopherol, 1,3-butadiene, N,N-dimethylformamide"), ("covid", "COVID-19"), ("mail", "an e-mail"),
    ("wifi", "Wi-Fi 6E"), ("gpt", "GPT-4o mini"), ("o'brien", "O'Brien"), ("price", "$1,234.56"), ("pi", "3.14159"),
    ("isbn", "ISBN 978-3-16-148410-0"), ("rfc", "RFC 2616"), ("x86", "x86_64"), ("snake", "snake_case_name"),
    ("address", "user@example.org"), ("tag", "#hashtag"), ("glued", "KRN190416"),
]  # fmt: skip
ASKED_NAMES = {
    "c++": ["C++", "c++ java"], "c#": ["C#", "c# 教程"], "f#": ["F#"], ".net": [".NET", ".net core 8.0.1", "8.0.1"],
    "node": ["node.js", "nodejs", "Node JS", "v18.17.1", "18.17.1"], "at&t": ["AT&T"], "ip": ["tcp/ip", "192.168.0.1"],
    "phone": ["+33 1 42 68 53 00", "33-1-42-68-53-00", "电话 +33 1 42 68 53 00"], "date": ["2024-03-15", "2024/03/15"],
    "doi": ["10.1038/s41586-020-2649-2", "doi:10.1038/s41586-020-2649-2", "https://doi.org/10.1038/s41586-020-2649-2"],
    "arxiv": ["https://arxiv.org/abs/2307.09288", "arxiv 2307.09288"], "water": ["H2O", "CO2", "CO₂", "h₂o"],
    "tocopherol": ["α-tocopherol", "1,3-butadiene", "N,N-dimethylformamide"], "covid": ["COVID-19", "covid19",
    "covid 19"],
    "mail": ["e-mail", "email", "E-MAIL"], "wifi": ["wi-fi", "wifi", "WiFi 6E"], "gpt": ["gpt-4o", "GPT4o", "gpt 4o"],
    "o'brien": ["O’Brien", "obrien"], "price": ["$1,234.56", "1234.56"], "pi": ["3.14159"],
    "isbn": ["978-3-16-148410-0"], "rfc": ["RFC2616", "rfc-2616"], "x86": ["x86-64", "x86_64"],
    "snake": ["snake_case_name", "snake case"], "address": ["user@example.org"], "tag": ["#hashtag", "hashtag"],
    "glued": ["KRN-190416", "krn190416", "KRN_190416"],
}  # fmt: skip


def each(texts: Sequence[Text], asked: dict[str, list[str]]) -> str:
    """Every query finds the text under whose title it stands."""
    wrong = [done for title, queries in asked.items() if (done := ask(texts, queries, title)) != title]
    return "; ".join(wrong) or "found"


# -- L04: archives -----------------------------------------------------------------------------------------------------


@cache
def archives() -> Path:
    """The case's archives: with an index, without, cut, with an inverted byte, no archive at all."""
    from tests.corpus.test_zim import archive

    folder = home() / "zim"
    folder.mkdir()
    whole = archive(folder / "i.zim", True).read_bytes()
    archive(folder / "n.zim", False)
    middle = len(whole) // 2
    (folder / "cut.zim").write_bytes(whole[:middle])
    (folder / "flip.zim").write_bytes(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
    (folder / "text.zim").write_text("hello" * 100)
    (folder / "empty.zim").write_bytes(b"")
    return folder


def in_archive(name: str, query: str) -> str:
    """What the command line says of a search in an archive: the first title, the note or the error."""
    result = venus("corpus", "search", str(archives() / name), query, name="zim-home")
    shown = result.stdout.splitlines()[0] if result.exit_code == 0 else ""
    said = " ".join(result.stderr.split()).replace(str(archives()), "").replace("/", "")
    return " | ".join(filter(None, (shown, said))).partition(";")[0]


def in_archives(queries: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(in_archive("i.zim", query) for query in queries))


def beside_damaged() -> str:
    """A corpus of all of them: one line for each that cannot be read, and the others answer."""
    names = ("i.zim", "cut.zim", "text.zim", "empty.zim")
    made = venus("corpus", "create", "all", *(str(archives() / name) for name in names), name="zim-home")
    lines = [name for name in names if sum(name in line for line in made.stderr.splitlines()) == 1]
    found = venus("corpus", "search", "all", "Kereon height", name="zim-home").stdout.splitlines()
    return f"one line each: {', '.join(lines)}; found: {found[0] if found else 'nothing'}"


def shown(path: str) -> str:
    result = venus("corpus", "show", str(archives() / "i.zim"), path, name="zim-home")
    return result.stdout.splitlines()[0] if result.exit_code == 0 else result.stderr.splitlines()[0]


def flipped() -> str:
    venus("corpus", "create", "flip", str(archives() / "flip.zim"), name="zim-home")
    result = venus("corpus", "check", "flip", name="zim-home")
    return f"{result.exit_code}: {'damaged' if 'damaged' in result.stderr else result.stderr}"


PATHS = ["A/Kereon", "A/Kéréon", "Kereon", "A/Kereon#history", "A/%E7%81%AF%E5%A1%94", "zim://i/A/Kereon"]

# -- L05: what is damaged, and what is no corpus -----------------------------------------------------------------------

ROWS = 3_000


@cache
def files() -> Path:
    """The case's six files."""
    folder = home() / "files"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "x.db")) as db:
        db.execute("create virtual table t using fts5(body)")
        db.executemany("insert into t values(?)", [(f"tide gauge {n} " * 20,) for n in range(ROWS)])
        db.commit()
        db.execute("update t_data set block=zeroblob(length(block)) where id>10 and id%3=0")
        db.commit()
    raw = (folder / "x.db").read_bytes()
    (folder / "cut.db").write_bytes(raw[: len(raw) // 2])
    (folder / "text.db").write_text("not a database, padded " * 50)
    (folder / "zero.db").write_bytes(b"")
    (folder / "other.db").write_bytes(b"SQLite format 3\0" + b"\0" * 84)
    return folder


def opened(name: str) -> str:
    """What the library and the command line say of a file, which must be one line and the same."""
    path = files() / name
    try:
        Corpus(path).close()
        said = "opened"
    except CorpusError as error:
        said = str(error)
    line = venus("corpus", "search", str(path), "tide gauge").stderr.rstrip()
    same = line.removeprefix("Error: ") == said or not path.exists()
    return (line if same else f"{said} / {line}").removeprefix("Error: ").replace(f"{path}", "it")


@cache
def sound() -> bytes:
    """The file of a corpus of 3,000 texts."""
    rows = [{"id": str(n), "title": f"t{n}", "text": f"tide gauge own{n} " * 20} for n in range(ROWS)]
    (home() / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    venus("corpus", "create", "rows", str(home() / "rows.jsonl"), name="sound")
    return (home() / "sound" / "data" / "corpora" / "rows.sqlite").read_bytes()


def changed(*statements: str) -> Callable[[bytes], bytes]:
    def done(whole: bytes) -> bytes:
        path = home() / "changing.sqlite"
        path.write_bytes(whole)
        with closing(sqlite3.connect(path)) as db:
            for statement in statements:
                db.execute(statement)
            db.commit()
        return path.read_bytes()

    return done


def mended(damage: Callable[[bytes], bytes], sources: bool = True) -> str:
    """What happens to a corpus that is damaged: what a search, an update and an export say; then `rebuild`, and how
    much is found."""
    name = f"mended-{len(list(home().glob('mended-*')))}"
    path = home() / name / "data" / "corpora" / "rows.sqlite"
    whole, copy, rows, away = sound(), home() / name / "copy", home() / "rows.jsonl", home() / "away.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(damage(whole))
    commands = (("search", "rows", "tide gauge"), ("update", "rows"), ("export", "rows", str(copy)))
    if not sources:
        rows.rename(away)
    asked = [venus("corpus", *words, name=name) for words in commands]
    rebuilt = venus("corpus", "rebuild", "rows", name=name)
    if not sources:
        away.rename(rows)
    told = {result.stderr.rstrip().rpartition("with: ")[2] for result in asked}
    if rebuilt.exit_code:
        return rebuilt.stderr
    with closing(Corpus(path)) as corpus:
        found = len(corpus.search("tide gauge", ROWS).hits)
    codes, aside = {result.exit_code for result in asked}, len(list(path.parent.glob("*.old-1")))
    return f"{codes}, told: {', '.join(sorted(told))}; then {found} found, {aside} kept aside"


MENDED = "{1}, told: venus-edge corpus rebuild rows; then 3000 found, 1 kept aside"
INDEX = changed("update words_data set block=zeroblob(length(block)) where id>10 and id%3=0")


# -- the table ---------------------------------------------------------------------------------------------------------

Row = tuple[str, str, Callable[[], str], str]  # case, kind, what is done, what comes of it


def safe(kind: str, queries: Sequence[str]) -> Row:
    return "L01", kind, partial(ask, SAFE, queries, "Kereon light"), "Kereon light"


def alternatives(kind: str, texts: Sequence[Text], queries: Sequence[str]) -> Row:
    return "L02", kind, partial(ask, texts, queries, texts[0][0]), texts[0][0]


NOT_A_CORPUS = "it is not a corpus; make one with: venus-edge corpus build DIR"
TABLE: list[Row] = [
    safe("the case's queries that have a word", CASE_L01),
    ("L01", "nothing to search for", partial(ask, SAFE, NO_WORDS, NO_WORD), NO_WORD),
    ("L01", "words that are nowhere", partial(ask, SAFE, ["zebra", "斑马", "シマウマ", "얼룩말", "zèbre"], NOTHING),
     NOTHING),
    safe("FTS5's own syntax", FTS5),
    safe("operators of other engines", ENGINES),
    safe("quotes of many scripts", QUOTES),
    safe("code, SQL and markup", CODE),
    safe("NUL, halves of characters, controls, emoji", UNSEEN),
    safe("10,000 characters", LONG),
    safe("site:, with Chinese too", SITES),
    alternatives("the case's questions", LIGHTS, CASE_L02),
    alternatives("inflections of English", LIGHTS, INFLECTED),
    alternatives("one word of many", LIGHTS, ONE_WORD),
    alternatives("Chinese questions", ASIA, CHINESE),
    alternatives("Japanese questions", [ASIA[2], *ASIA[:2], ASIA[3]], JAPANESE),
    alternatives("Korean questions", [ASIA[3], *ASIA[:3]], KOREAN),
    ("L03", "the case's queries", partial(each, SCRIPTS, CASE_L03), "found"),
    ("L03", "a single character", partial(each, SCRIPTS, SINGLE), "found"),
    ("L03", "mixed runs, phrases, forms", partial(each, SCRIPTS, MIXED), "found"),
    ("L03", "accents, ligatures, widths, marks, variants", partial(each, FORMS, ASKED_FORMS), "found"),
    ("L03", "names, numbers, versions, addresses", partial(each, NAMES, ASKED_NAMES), "found"),
    ("L05", "x.db: another program's database", partial(opened, "x.db"),
     "it is a database, but not a corpus; make one with: venus-edge corpus build DIR"),
    ("L05", "cut.db: half of it", partial(opened, "cut.db"),
     "it: the corpus is damaged; make it again (the old file is kept) with: venus-edge corpus build DIR"),
    ("L05", "text.db: a text", partial(opened, "text.db"), NOT_A_CORPUS),
    ("L05", "zero.db: empty", partial(opened, "zero.db"),
     "it is empty; make the corpus with: venus-edge corpus build DIR"),
    ("L05", "other.db: a header and nothing", partial(opened, "other.db"), NOT_A_CORPUS),
    ("L05", "nodir/x.db: missing", partial(opened, "nodir/x.db"),
     "there is nothing at it; make a corpus with: venus-edge corpus create NAME SOURCE"),
    ("L05", "a corpus whose index is damaged", partial(mended, INDEX), MENDED),
    ("L05", "the same, its sources gone: from its texts", partial(mended, INDEX, sources=False), MENDED),
    ("L05", "a corpus cut in half", partial(mended, lambda whole: whole[: len(whole) // 2]), MENDED),
    ("L05", "a corpus cut to its first pages", partial(mended, lambda whole: whole[:30_000]), MENDED),
    ("L05", "bytes in the middle garbled", partial(
        mended, lambda whole: whole[:400_000] + b"\xff" * 40_000 + whole[440_000:]), MENDED),
    ("L05", "an older version", partial(mended, changed("update meta set value = '0' where name = 'terms'")), MENDED),
]  # fmt: skip
ARCHIVES: list[Row] = [
    ("L02", "the case's questions, of a ZIM archive", partial(in_archives, CASE_L02), "Kereon light"),
    ("L02", "one word of many, of a ZIM archive", partial(in_archives, OF_ONE), "Kereon light"),
    ("L04", "no full-text index", partial(in_archive, "n.zim", "Kereon height"),
     "Kereon light | n.zim has no full-text index: only its titles are searched"),
    ("L04", "cut, text, empty: the others answer", beside_damaged,
     "one line each: cut.zim, text.zim, empty.zim; found: Kereon light"),
    ("L04", "an inverted byte", flipped, "1: damaged"),
    *(("L04", f"path {path}", partial(shown, path), "灯塔" if "%" in path else "Kereon light") for path in PATHS),
    ("L04", "path A/Doc", partial(shown, "A/Doc"), "Error: page could not be read: it is a damaged PDF document"),
    ("L04", "path A/nope", partial(shown, "A/nope"), "Error: A/nope is not in the corpus"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "kind", "done", "expected"), TABLE, ids=[f"{row[0]} {row[1]}" for row in TABLE])
def test_each_kind_comes_to_what_is_right(case: str, kind: str, done: Callable[[], str], expected: str) -> None:
    assert done() == expected


@pytest.mark.parametrize(("case", "kind", "done", "expected"), ARCHIVES, ids=[f"{row[0]} {row[1]}" for row in ARCHIVES])
def test_each_kind_of_archive(case: str, kind: str, done: Callable[[], str], expected: str) -> None:
    pytest.importorskip("libzim.writer")
    assert done() == expected
