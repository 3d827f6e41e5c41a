"""A query is asked in the market of its script."""

from __future__ import annotations

import pytest

from venus_edge.sources.language import ENGLISH, Market, market, named

MARKETS = {
    "布雷斯特 验潮站 最早 年份": "cn-zh",
    "東京湾 潮位 観測所 の 記録": "jp-jp",
    "東京湾 潮位 観測所": "jp-jp",
    "駅 時刻表": "jp-jp",
    "燈塔 高度": "cn-zh",
    "喆镕 灯塔": "cn-zh",
    "カタカナ": "jp-jp",
    "서울 조위 관측소": "kr-kr",
    "서울 漢江": "kr-kr",
    "Brest tide gauge first year": "us-en",
    "Gezeitenpegel Brest ältester Wert": "us-en",
    "Straße nach Brest": "de-de",
    "маяк Кереон высота": "ru-ru",
    "висота маяка Керіон": "ua-uk",
    "NGC 1277 红移 distance": "cn-zh",
    "φάρος": "gr-el",
    "error of π": "us-en",
    "": "us-en",
}


@pytest.mark.parametrize("query", MARKETS)
def test_the_script_decides(query: str) -> None:
    assert market(query).region == MARKETS[query]


def test_a_market_has_its_language() -> None:
    assert (market("灯塔"), market("x")) == (Market("cn-zh", "zh-CN"), ENGLISH)


NAMED = {
    "de-de": Market("de-de", "de-DE"),
    "cn-zh": Market("cn-zh", "zh-CN"),
    "tw-tzh": Market("tw-tzh", "zh-TW"),
    "jp-jp": Market("jp-jp", "ja-JP"),
    "kr-kr": Market("kr-kr", "ko-KR"),
    "zh-CN": Market("cn-zh", "zh-CN"),
    "ja-JP": Market("jp-jp", "ja-JP"),
    "fr-BE": Market("be-fr", "fr-BE"),
    "xa-ar": Market("xa-ar", "ar"),
    "germany": None,
    "": None,
}


@pytest.mark.parametrize("written", NAMED)
def test_a_market_is_named_as_search_services_or_as_http_do(written: str) -> None:
    assert named(written) == NAMED[written]


def test_a_language_of_many_countries_has_none() -> None:
    assert [Market("xa-ar", "ar").country, ENGLISH.country] == ["", "us"]
