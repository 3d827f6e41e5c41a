"""Which words say the same, which say the opposite, which say little: the tables that sentences are compared by. Data.

English words are given as they are written and stemmed here; a word that stands in no table is itself.
"""

from __future__ import annotations

import re

from venus_edge import terms

_SAME = """
build built construct constructed erect erected
complete completed finish finished
found founded founder establish established
tall high height
long length
wide width breadth
deep depth
heavy weight weigh weighs weighed
die died dies death dead
born birth
write wrote written author writer
design designed designer
open opened inaugurate inaugurated
close closed shut
begin began begun start started
defeat defeated beat beaten beats
buy bought purchase purchased acquire acquired
sell sold
hold held holds
lead led leads
flow flows flowing
rise rose risen grow grew grown increase increased
fall fell fallen decline declined drop dropped decrease decreased
appear appeared publish published
win won wins
give gave given
take took taken
make made makes
become became becomes
run ran runs
inhabitant inhabitants population
car automobile
film movie
sign signed
end ended ends
"""
SAME = {
    terms.stem(word): f"={group.split()[0]}" for group in _SAME.strip().splitlines() for word in group.split()
}  # stem -> the group's own name

_OPPOSITE = """
before after|all some|oldest newest|old new|largest smallest|highest lowest|longest shortest|first last|north south
|east west|northern southern|eastern western|increase decrease|rise fall|open close|born die|begin end|win lose
|higher lower|more less|more fewer|above below|maximum minimum|left right|upper lower|inside outside|earlier later
|older newer|older younger|larger smaller|longer shorter|buy sell|always sometimes|only also|for against
"""
OPPOSITE: dict[str, frozenset[str]] = {}
for _pair in _OPPOSITE.replace("\n", "").split("|"):
    _one, _other = (SAME.get(terms.stem(word), terms.stem(word)) for word in _pair.split())
    OPPOSITE[_one] = OPPOSITE.get(_one, frozenset()) | {_other}
    OPPOSITE[_other] = OPPOSITE.get(_other, frozenset()) | {_one}

_TELLING_STOPWORDS = "before after all some above below more only against both"
TELLING = frozenset(_TELLING_STOPWORDS.split())  # stopwords of an index that turn a sentence round

_WEAK = """
located situated known called named about around approximately nearly total currently according source sources evidence
state states said says stated reported describe described confirm confirmed confirms documented therefore also
specifically officially there measure measures measured date dates dated year month day time number answer final however
stand stands lie lies lying include includes including show shows shown mention mentioned consist rather quite very
roughly over per website whole entire have has had do does did well particular period thus hence namely respectively
furthermore moreover explicitly indeed need provide
"""
WEAK = frozenset(SAME.get(terms.stem(word), terms.stem(word)) for word in _WEAK.split())

# A single noun with "the" that speaks of the page's own subject, whatever it is called.
_ANAPHORA = """
light tower station building structure bridge town city village company novel book film museum author work garden house
country island river lake church club team series show game album song plant dam school university line project site
species report study paper model system
"""
ANAPHORA = frozenset(terms.stem(word) for word in _ANAPHORA.split())

_VERBS = """
is are was were be been being has have had do does did can will would began begins begun became becomes lies lay
stands stood holds held won lost ran runs led leads made makes gave gives took takes fell falls rose rises grew grows
sold rebuilt met set put cut kept sent bought wrote writes died built came comes went goes left cost costs flows flow
contains carries serves means burned paid taught said told got fought caught thought spent drew knew flew threw chose
broke spoke drove rode sank sang saw fed bore may might could should must
"""
VERBS = frozenset(_VERBS.split())  # those that do not end in -ed and end what a clause is about
_PREPOSITIONS = "in on at by from during since until after before with near under for to about between"
PREPOSITIONS = frozenset(_PREPOSITIONS.split())
_PRONOUNS = "it its he his she her they their this these that those"
PRONOUNS = frozenset(_PRONOUNS.split())

_NEGATORS = "not never no neither nor none without cannot"
NEGATORS = frozenset(_NEGATORS.split())
NOT_NEGATING = re.compile(r"\bnot only\b|\bno\.\s|\bno less\b|\bno fewer\b|\bnot least\b", re.IGNORECASE)
HEDGES = re.compile(
    r"\b(?:planned|plans|proposed|expected|scheduled|projected|rumou?red|rumou?rs?|alleged(?:ly)?|reportedly|supposedly|"
    r"may|might|could|would|disputed|is said to|was said to|claims that|claimed that|purported(?:ly)?|"
    r"unlikely|possibly|perhaps)\b|计划|拟于|拟建|预计|可能|据传|据说|或许|传闻|有望|疑似|相传|传说"
)
_NTHS = "second third fourth fifth sixth seventh eighth ninth tenth"
NTHS = frozenset(_NTHS.split())  # before a superlative they say that it is another
SUPERLATIVE = re.compile(
    rf"(?:\w{{2,}}est|first|last|only|sole|unique|majority|every|most|{'|'.join(_NTHS.split())}|第.+)$"
)

# -- Chinese ----------------------------------------------------------------------------------------------------------

_BEFORE_AMOUNT = r"(?=\s*(?:为|约|达|是|有|的|近|\x00))"
HAN_SAME = {
    "=complete": "建成|竣工|落成|完工",
    "=open": "通车|开通|启用|开馆|开业|投入使用|开放",
    "=begin": "始建|动工|开工",
    "=build": "建于|兴建|修建|建造",
    "=locate": "位于|坐落于|坐落在|座落于|地处",
    "=die": "卒于|逝世|去世|死于|病逝",
    "=born": "生于|出生于|出生|诞生于",
    "=design": "设计",
    "=found": "创立|创办|成立|创建|设立",
    "=width": f"宽度|宽{_BEFORE_AMOUNT}",
    "=tall": f"高度|(?:全|总|身)?高{_BEFORE_AMOUNT}",
    "=long": f"长度|(?:全|总|身)?长{_BEFORE_AMOUNT}",
    "=deep": f"深度|深{_BEFORE_AMOUNT}",
    "=heavy": f"重量|重{_BEFORE_AMOUNT}",
    "=write": "撰写|所著|著有|作者",
    "=appear": "出版|发表|刊行|问世",
    "=defeat": "战胜|击败|打败",
    "=rise": "增长|上升|增加|提高|上涨",
    "=fall": "下降|减少|降低|下跌",
    "=inhabitant": "居民|人口",
    "=sign": "签署|签订|缔结",
}
HAN_SAME_PATTERN = re.compile("|".join(f"(?P<g{i}>{words})" for i, words in enumerate(HAN_SAME.values())))
HAN_GROUPS = tuple(HAN_SAME)
HAN_WEAK = re.compile(
    r"根据|显示|资料|目前|已经|一座|一个|一条|一名|其中|此外|因此|总共|大约|左右|左侧|名为|叫做|称为|该页|来源|最终答案|答案"
    r"|数量|双向|发源|之一|官方|哪一?[年个位座条里]|谁|什么|多少|何时|何年|多[高长宽深大]|正式"
)
HAN_FUNCTION = re.compile(
    "[的了在是于由和与被把等之其为也都就而及以到从向对所这那该此它他她们个座条位名一里内约近达共有曾已约逾已将]"
)
HAN_NEGATOR = re.compile(r"不(?![仅但同断过少久论管止])|没有|没(?![收])|未(?!来)|并非|无(?![论锡])|非(?![常洲])|否认")
HAN_PRONOUN = re.compile(r"\s*(?:它|其|该|这|此|他|她)")
HAN_VOICE = re.compile("[由被比]")
