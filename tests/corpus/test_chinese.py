"""A Chinese corpus about an archipelago that is nowhere, twenty questions as people ask them: the right page is among
the first three. Pages share their subjects on purpose: four lighthouses, three harbours, three fish, three people.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from venus_edge.corpus.index import Corpus
from venus_edge.corpus.store import Document, Writer

PAGES = {
    "克雷翁灯塔": "克雷翁灯塔位于群岛最西端的礁石上，一九一六年首次点亮，塔身用灰色花岗岩砌成，高四十一米。"
    "灯光每十秒闪白光两次，晴夜里二十海里外可见。",
    "阿尔曼灯塔": "阿尔曼灯塔建成于1881年，施工历时十四年，因为工人每年只有几天能够登上礁石。"
    "塔高37米，现已无人值守，由岸上遥控。",
    "尼维克灯塔": "尼维克灯塔是一座铁制的红色灯塔，建在沙洲上。它的雾号在大雾天每分钟鸣响三次，渔民称它为“老牛”。",
    "茹芒灯塔": "茹芒灯塔的建造资金来自一位船长的遗嘱。他在海难中失去了两个儿子，要求在那片暗礁上建一座灯。",
    "布雷港": "布雷港是群岛最大的港口，码头长六百米，可以停泊渡轮和货船。每天早晨六点有渡船开往大陆，航程两个半小时。",
    "洛坎港": "洛坎港只有小渔船停靠。港口入口水深不足两米，退潮时船只无法进出，进港须等涨潮。",
    "泰维港": "泰维港冬天结冰，从十二月到次年三月封港。港内有一家修船厂，修理木船已有一百多年历史。",
    "潮位观测所": "潮位观测所设在布雷港的防波堤尽头，每十分钟记录一次水位。平均潮差为五点二米，春季大潮可达八米。",
    "气象站": "气象站建在卡姆山顶，海拔二百一十米。年平均气温十一度，年降水量九百毫米，十一月风最大。",
    "银鳕": "银鳕生活在群岛以北的深水中，寿命可达三十年。为保护产卵，每年二月和三月禁止捕捞。",
    "沙丁鱼": "沙丁鱼夏季成群游到近岸。本地人把它们用盐腌一夜，再放进橄榄油里，装进蓝色的铁罐出售。",
    "海鳗": "海鳗藏在礁石的缝隙里，夜间出来觅食。最大的一条重达六十五公斤，一九八七年在洛坎港附近捕获。",
    "黑面羊": "黑面羊是岛上特有的绵羊，体形很小，脸是黑色的。羊毛里的油脂很多，织成的毛衣可以防雨，是水手的传统衣物。",
    "荞麦薄饼": "荞麦薄饼用荞麦粉、水和盐做成，面糊要放置一夜。烤好以后夹鸡蛋、奶酪或者熏香肠，配苹果酒吃。",
    "岛语": "岛语与大陆的语言不通，如今只有约一千二百人会说，多数超过六十岁。小学从2004年起每周教三个小时。",
    "玛德莲·凯尔": "玛德莲·凯尔是群岛上的第一位女医生，一九二三年回到家乡行医。"
    "她划着小船去各个岛出诊，四十年里接生了两千多个婴儿。",
    "伊夫·塔博": "伊夫·塔博是小提琴手，收集了三百首民歌，把它们录在蜡筒上。他的录音保存在布雷的图书馆里。",
    "安妮·罗藏": "安妮·罗藏是守灯人的女儿，用水彩画了岛上所有的海藻，共一百八十种。她的画册于一九〇九年出版。",
    "群岛博物馆": "群岛博物馆由旧的鱼罐头厂改建而成，展出船模、罗盘和沉船里打捞的瓷器。星期一闭馆，儿童免费。",
    "一七八八年的风暴": "一七八八年的风暴持续了三天，掀翻了四十条渔船，冲毁了洛坎的教堂。"
    "此后每年十月岛民都点蜡烛纪念死难者。",
    "太阳能电站": "太阳能电站于2019年投入使用，供应全岛三分之一的电力。其余的电来自柴油发电机和两台风力发电机。",
    "海水淡化厂": "海水淡化厂每天生产八百立方米饮用水。以前居民靠屋顶收集雨水，干旱的夏天由船运水。",
    "自行车环岛路": "自行车环岛路全长三十二公里，沿海岸而行，经过两座灯塔。"
    "租车处在渡轮码头旁边，骑完一圈大约需要三小时。",
    "海雀": "海雀在北岸的悬崖上挖洞筑巢，四月飞来，七月底离开。参观者必须留在步道上，禁止带狗。",
}
QUESTIONS = {
    "克雷翁灯塔有多高？": "克雷翁灯塔",
    "哪座灯塔的施工花了十四年": "阿尔曼灯塔",
    "大雾的时候哪座灯塔会鸣雾号": "尼维克灯塔",
    "船长在遗嘱里出钱建的灯塔叫什么": "茹芒灯塔",
    "去大陆的渡船几点开，要坐多久": "布雷港",
    "哪个港口退潮的时候进不去": "洛坎港",
    "冬天会结冰的港口": "泰维港",
    "春季大潮的潮差最大是多少米": "潮位观测所",
    "岛上一年的降水量是多少毫米": "气象站",
    "银鳕什么时候不准捕捞？": "银鳕",
    "沙丁鱼罐头是怎么做的": "沙丁鱼",
    "最大的海鳗有多重": "海鳗",
    "水手穿的防雨毛衣是用什么羊的羊毛织的": "黑面羊",
    "还有多少人会说岛语？小学教吗": "岛语",
    "群岛第一位女医生是谁": "玛德莲·凯尔",
    "民歌的蜡筒录音保存在哪里": "伊夫·塔博",
    "谁画了海藻的水彩画册": "安妮·罗藏",
    "博物馆星期几不开门": "群岛博物馆",
    "岛上的电有多少来自太阳能": "太阳能电站",
    "骑自行车环岛一圈要几个小时": "自行车环岛路",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    path = tmp_path_factory.mktemp("zh") / "x.sqlite"
    with Writer(path) as writer, writer.batch():
        for number, (title, text) in enumerate(PAGES.items()):
            writer.put(Document(f"https://qundao.example/{number}", title, text))
    with Corpus(path) as opened:
        yield opened


def test_there_are_twenty_questions_about_pages_that_are_there() -> None:
    assert (len(QUESTIONS), set(QUESTIONS.values()) <= set(PAGES)) == (20, True)


@pytest.mark.parametrize(("question", "title"), QUESTIONS.items())
def test_the_right_page_is_among_the_first_three(corpus: Corpus, question: str, title: str) -> None:
    assert title in [hit.title for hit in corpus.search(question).hits[:3]]


def test_it_is_the_first_for_nearly_all(corpus: Corpus) -> None:
    first = sum(corpus.search(question).hits[0].title == title for question, title in QUESTIONS.items())
    assert first >= 18


def test_the_snippet_holds_the_answer(corpus: Corpus) -> None:
    hits = {question: corpus.search(question).hits[0].snippet for question in QUESTIONS}
    assert "高四十一米" in hits["克雷翁灯塔有多高？"]
    assert "星期一闭馆" in hits["博物馆星期几不开门"]
    assert "二月和三月禁止捕捞" in hits["银鳕什么时候不准捕捞？"]
