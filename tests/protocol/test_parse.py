"""A finished turn becomes the call or the answer that it is, whatever shape a quantised model gave it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.runs import released
from venus_edge.protocol.parse import Finish, abandoned, parse
from venus_edge.values import Answer, Malformed, Reply, SearchCall, VisitCall

FIELDS = '"name": "search", "arguments": {"query": ["Brest gauge"]}'
CALL = "<tool_call>\n{" + FIELDS + "}\n</tool_call>"
DRAFT = '<tool_call>{"name": "visit", "arguments": {"url": ["https://example.org/a"], "goal": "x"}}</tool_call>'
BREST = SearchCall(("Brest gauge",))


def block(inside: str) -> str:
    return f"ok\n</think>\n\n<tool_call>\n{inside}\n</tool_call>"


def search(arguments: object) -> str:
    return block(json.dumps({"name": "search", "arguments": arguments}, ensure_ascii=False))


def visit(arguments: object) -> str:
    return block(json.dumps({"name": "visit", "arguments": arguments}, ensure_ascii=False))


# -- thought and action -----------------------------------------------------------------------------------------------

THOUGHTS = {
    "closed": f"prose\n</think>\n\n{CALL}",
    "opened and closed": f"<think>\nprose\n</think>\n{CALL}",
    "opened on the same line": f"<think>prose</think>{CALL}",
    "never closed": f"prose\n{CALL}",
    "opened, never closed": f"<think>\nprose\n{CALL}",
    "never closed, on one line": f"prose {CALL}",
    "opened twice": f"<think>\n<think>\nprose\n</think>\n\n{CALL}",
    "closed twice": f"prose\n</think>\n</think>\n\n{CALL}",
    "an empty thought first": f"<think>\n\n</think>\n\n<think>\nprose\n</think>\n\n{CALL}",
    "capitals": f"<THINK>\nprose\n</THINK>\n{CALL}",
    "another name": f"<thinking>\nprose\n</thinking>\n{CALL}",
    "plays the tool": f"prose\n</think>\n{CALL}\n<tool_response>\n[]\n</tool_response>\n<answer>42</answer>",
    "plays the tool, never closed": f"prose\n{CALL}\n<tool_response>\n[]\n</tool_response>\n<think>x</think>\n{DRAFT}",
    "thinks on after the call": f"prose\n</think>\n{CALL}\n<think>\nmore\n</think>\n<answer>42</answer>",
    "plays the user": f"prose\n</think>\n{CALL}<|im_end|>\n<|im_start|>user\nThanks.<|im_end|>",
    "ends with a control token": f"prose\n</think>\n{CALL}<|im_end|>",
}


@pytest.mark.parametrize("text", THOUGHTS.values(), ids=THOUGHTS.keys())
def test_a_thought_is_what_stands_before_the_action_however_it_is_tagged(text: str) -> None:
    reply = parse(text)
    assert (reply.thought, reply.action) == ("prose", BREST)
    assert reply.text.lower().startswith("<think>")
    assert (reply.text.count("<think>"), reply.text.count("</think>")) == (1, 1)
    assert reply.text.rstrip().endswith("</tool_call>")


REHEARSALS = {
    "a draft call": (f"I could call {DRAFT} but a search is cheaper.\n</think>\n{CALL}", BREST),
    "a draft call on its own line": (f"I could call\n{DRAFT}\nbut a search is cheaper.\n</think>\n{CALL}", BREST),
    "a draft answer": (f"Is it <answer>1806</answer>? Check.\n</think>\n{CALL}", BREST),
    "answer tags": (f"When ready I must use <answer></answer> tags. Not yet.\n</think>\n{CALL}", BREST),
    "a call tag": ("The rules want a <tool_call> block, but I know.\n</think>\n<answer>1807</answer>", Answer("1807")),
    "a closing think tag": (f"I must write </think> before the call.\n</think>\n\n{CALL}", BREST),
    "a response tag": (f"The <tool_response> says no.\n</think>\n\n{CALL}", BREST),
    "never closed": (f"I could call {DRAFT} but a search is cheaper.\n{CALL}", BREST),
    "never closed, tags only": (f"Not <answer></answer> or <tool_call> yet.\n{CALL}", BREST),
    "never closed, then an answer": (f"I could call {DRAFT} but I know.\n<answer>1807</answer>", Answer("1807")),
    "Chinese": (f"我可以先用 {DRAFT}，不过搜索更便宜。\n</think>\n{CALL}", BREST),
}


@pytest.mark.parametrize(("text", "action"), REHEARSALS.values(), ids=REHEARSALS.keys())
def test_tags_inside_the_thought_are_prose(text: str, action: object) -> None:
    assert parse(text).action == action


@pytest.mark.parametrize("text", [f"prose {CALL}\n</think>\n", "It is <answer>1807</answer>.\n</think>\n\nDone."])
def test_what_stands_only_in_the_thought_is_never_done(text: str) -> None:
    assert parse(text).action == Malformed("neither a call nor an answer")


TOGETHER = {
    "call, answer": (f"x</think>\n{CALL}\n<answer>1807</answer>", BREST),
    "answer, call": (f"x</think>\n<answer>1807</answer>\n{CALL}", BREST),
    "two calls": (f"x</think>\n{CALL}\n{DRAFT}", BREST),
    "two calls in one block": (block("{" + FIELDS + '}\n{"name": "search", "arguments": {"query": ["b"]}}'), BREST),
    "a list of calls": (block("[{" + FIELDS + '}, {"name": "search", "arguments": {"query": ["b"]}}]'), BREST),
    "a call as the answer": (f"x</think>\n<answer>\n{CALL}\n</answer>", BREST),
    "an answer that quotes a call": (
        "x</think>\n<answer>It is <tool_call>{" + FIELDS + "}</tool_call>, see.</answer>",
        Answer("It is <tool_call>{" + FIELDS + "}</tool_call>, see."),
    ),
    "words before and behind": (f"x</think>\nI will search now.\n{CALL}\nI wait.", BREST),
}


@pytest.mark.parametrize(("text", "action"), TOGETHER.values(), ids=TOGETHER.keys())
def test_of_several_actions_the_first_call_runs(text: str, action: object) -> None:
    assert parse(text).action == action


def test_what_follows_the_call_that_runs_is_not_kept() -> None:
    assert parse(f"x\n</think>\n\n{CALL}\n{DRAFT}\n<answer>42</answer>").text == f"<think>\nx\n</think>\n\n{CALL}"


# -- answers ----------------------------------------------------------------------------------------------------------

ANSWERS = {
    "plain": ("x</think>\n<answer>\n**1807**\n\n</answer>", Answer("**1807**")),
    "Chinese": ("x</think>\n<answer>一八〇七年</answer>", Answer("一八〇七年")),
    "capitals": ("x</think>\n<Answer>1807</ANSWER>", Answer("1807")),
    "full width": ("x</think>\n＜answer＞1807＜/answer＞", Answer("1807")),
    "a sign": ("x</think>\n<answer>∞</answer>", Answer("∞")),
    "no closing tag": ("x</think>\n<answer>1807, says the ledger.", Answer("1807, says the ledger.")),
    "closed by another tag": ("x</think>\n<answer>1807\n</tool_call>", Answer("1807")),
    "closed by an opening tag": ("x</think>\n<answer>1807<answer>", Answer("1807")),
    "another name": ("x</think>\n<final_answer>1807</final_answer>", Answer("1807")),
    "thought never closed": ("prose\n<answer>1807</answer>", Answer("1807")),
    "thought never closed, one line": ("So: <answer>1807</answer>", Answer("1807")),
    "two": ("x</think>\n<answer>1807</answer>\n<answer>1806</answer>", Answer("1807")),
    "the first is a placeholder": ("x</think>\n<answer>...</answer>\n<answer>1806</answer>", Answer("1806")),
    "opened twice": ("x</think>\n<answer>\nSummary.\n\n<answer>\n1807\n</answer>", Answer("Summary.\n\n1807")),
    "with think tags": ("x</think>\n<answer>Close it with </think>.</answer>", Answer("Close it with </think>.")),
    "a broken call behind": ("x</think>\n<answer>1807</answer>\n<tool_call>\n{oh", Answer("1807")),
    "empty": ("x</think>\n<answer> </answer>", Malformed("the answer is empty")),
    "placeholder": ("x</think>\n<answer>...</answer>", Malformed("the answer is empty")),
    "no tags": ("x</think>\n\nIt is 1807.", Malformed("neither a call nor an answer")),
    "thought only": ("I wonder.", Malformed("neither a call nor an answer")),
    "nothing": ("", Malformed("the reply is empty")),
}


@pytest.mark.parametrize(("text", "action"), ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_is_the_text_between_its_tags(text: str, action: object) -> None:
    assert parse(text).action == action


# -- slips in JSON ----------------------------------------------------------------------------------------------------

SLIPS = {
    "nested tags": "<tool_call>\n{" + FIELDS + "}\n</tool_call>",
    "a brace too many": "{" + FIELDS + "}}",
    "a brace too few": "{" + FIELDS,
    "two braces too few": "{" + FIELDS[:-1],
    "a bracket too few": "{" + FIELDS.replace('"]', '"') + "}",
    "a bracket too many": "{" + FIELDS.replace("]", "]]") + "}",
    "a quote too few": "{" + FIELDS.replace('gauge"', "gauge") + "}",
    "no quote before a key": '{"name": "search", arguments": {"query": ["Brest gauge"]}}',
    "no quote behind a key": '{"name": "search", "arguments: {"query": ["Brest gauge"]}}',
    "no quote before a value": '{"name": search", "arguments": {"query": ["Brest gauge"]}}',
    "no quote behind a value": '{"name": "search, "arguments": {"query": ["Brest gauge"]}}',
    "no brace before a key": '{"name": "search", "arguments": "query": ["Brest gauge"]}}',
    "brackets swapped": '{"name": "search", "arguments": {"query": ["Brest gauge"}]}',
    "dots for more": '{"name": "search", "arguments": {"query": ["Brest gauge", ...]}}',
    "no first brace": FIELDS + "}",
    "doubled braces": "{{" + FIELDS + "}}",
    "fenced": "```json\n{" + FIELDS + "}\n```",
    "fenced, no language": "```\n{" + FIELDS + "}\n```",
    "a word before": "json\n{" + FIELDS + "}",
    "a sentence before": "Here is the call: {" + FIELDS + "}",
    "byte-order mark": "\ufeff{" + FIELDS + "}",
    "trailing commas": '{"name": "search", "arguments": {"query": ["Brest gauge",],},}',
    "missing comma": '{"name": "search" "arguments": {"query": ["Brest gauge"]}}',
    "missing comma, new line": '{"name": "search"\n "arguments": {"query": ["Brest gauge"]}}',
    "missing colon": '{"name": "search", "arguments" {"query": ["Brest gauge"]}}',
    "single quotes": "{'name': 'search', 'arguments': {'query': ['Brest gauge']}}",
    "no quotes at keys": '{name: "search", arguments: {query: ["Brest gauge"]}}',
    "no quotes": "{name: search, arguments: {query: [Brest gauge]}}",
    "curly quotes": "{“name”: “search”, “arguments”: {“query”: [“Brest gauge”]}}",
    "mixed quotes": '{"name": \'search\', "arguments": {"query": [\'Brest gauge\']}}',
    "Python's words": '{"name": "search", "arguments": {"query": ["Brest gauge"], "fresh": True, "n": None}}',
    "comment": '{"name": "search", // look\n "arguments": {"query": ["Brest gauge"]}}',
    "full width": "{“name”：“search”，“arguments”：{“query”：[“Brest gauge”]}}",
    "full width, brackets too": "｛“name”：“search”，“arguments”：｛“query”：［“Brest gauge”］｝｝",
    "escaped once more": "{" + FIELDS.replace('"', '\\"') + "}",
    "escaped, with its breaks": "{\\n" + FIELDS.replace('"', '\\"') + "\\n}",
    "as a string": json.dumps("{" + FIELDS + "}"),
    "for HTML": "{" + FIELDS.replace('"', "&quot;") + "}",
    "XML": '<function=search>\n<parameter=query>\n["Brest gauge"]\n</parameter>\n</function>',
    "XML, plain value": "<function=search>\n<parameter=query>\nBrest gauge\n</parameter>\n</function>",
    "XML, named": '<invoke name="search"><parameter name="query">Brest gauge</parameter></invoke>',
    "XML, JSON inside": '<function=search>{"query": ["Brest gauge"]}</function>',
    "Python": 'search(query=["Brest gauge"])',
    "Python, fenced": '```python\nsearch(query=["Brest gauge"])\n```',
    "XML, tags by name": "<search>\n<query>Brest gauge</query>\n</search>",
    "equals signs": '{"name"="search", "arguments"={"query"=["Brest gauge"]}}',
    "Python, by position": 'search("Brest gauge")',
    "name, then JSON": 'search\n{"query": ["Brest gauge"]}',
    "OpenAI": '{"type": "function", "function": {' + FIELDS + "}}",
    "OpenAI, arguments as a string": (
        '{"function": {"name": "search", "arguments": "{\\"query\\": [\\"Brest gauge\\"]}"}, "id": "1"}'
    ),
    "a list of tool calls": '{"tool_calls": [{"function": {' + FIELDS + "}}]}",
    "parameters": '{"name": "search", "parameters": {"query": ["Brest gauge"]}}',
    "tool and input": '{"tool": "search", "input": {"query": ["Brest gauge"]}}',
    "the name as key": '{"search": {"query": ["Brest gauge"]}}',
    "no name": '{"query": ["Brest gauge"]}',
    "capitals": '{"Name": " Search", "Arguments": {"Query": ["Brest gauge"]}}',
    "a prefix": '{"name": "functions.search", "arguments": {"query": ["Brest gauge"]}}',
    "the same key twice": '{"name": "search", "arguments": {"query": ["a"]}, "arguments": {"query": ["Brest gauge"]}}',
    "unknown keys": '{"name": "search", "id": 7, "arguments": {"query": ["Brest gauge"], "top_k": 10}}',
}


@pytest.mark.parametrize("inside", SLIPS.values(), ids=SLIPS.keys())
def test_a_slip_in_the_call_is_mended(inside: str) -> None:
    assert parse(block(inside)).action == BREST


UNTAGGED = {
    "no closing tag": f"ok\n</think>\n<tool_call>\n{{{FIELDS}}}",
    "the response's closing tag": f"ok\n</think>\n<tool_call>\n{{{FIELDS}}}\n</tool_response>",
    "an opening tag at the end": f"ok\n</think>\n<tool_call>\n{{{FIELDS}}}\n<tool_call>",
    "no opening tag": f"ok\n</think>\n{{{FIELDS}}}\n</tool_call>",
    "no tags": f"ok\n</think>\n\n{{{FIELDS}}}",
    "a fence for tags": f"ok\n</think>\n\n```json\n{{{FIELDS}}}\n```",
}


@pytest.mark.parametrize("text", UNTAGGED.values(), ids=UNTAGGED.keys())
def test_a_call_with_wrong_tags_runs_and_is_kept_with_right_ones(text: str) -> None:
    reply = parse(text)
    assert reply.action == BREST
    assert reply.text.split("</think>")[1].strip() == CALL


EXACT = {
    "curly quotes": ["“真探” 第一季，台词"],
    "straight quotes": ['"Brest gauge" 1807'],
    "a closing tag": ["what does </tool_call> mean", "<answer>x</answer>"],
    "braces": ["a } b ] c { d"],
    "backslashes": ["C:\\new \\d+"],
    "apostrophe": ["l'année d'ouverture"],
    "a bracketed word": ["[sic] gauge", "[sic]"],
    "full-width signs": ["布雷斯特：验潮站、灯塔（1807）"],
    "two queries": ["Brest gauge", "Cadiz gauge"],
    "emoji": ["🗼 lighthouse"],
}


@pytest.mark.parametrize("queries", EXACT.values(), ids=EXACT.keys())
def test_what_is_right_stays_as_it_is(queries: list[str]) -> None:
    assert parse(search({"query": queries})).action == SearchCall(tuple(queries))
    assert parse(block(json.dumps({"name": "search", "arguments": {"query": queries}}))).action == SearchCall(
        tuple(queries)
    )


queries = st.text(min_size=1, max_size=40).map(lambda text: text.encode("utf-8", "replace").decode().strip())


@given(st.lists(queries.filter(lambda text: text and text[0] not in "[{"), unique=True, max_size=4))
def test_whatever_was_written_as_json_is_searched_for(wanted: list[str]) -> None:
    assert parse(search({"query": wanted})).action == SearchCall(tuple(wanted))


@given(st.lists(st.text("ab 灯塔-.0", min_size=1, max_size=12).map(str.strip).filter(bool), unique=True, min_size=1))
def test_whatever_was_written_as_python_is_searched_for(wanted: list[str]) -> None:
    assert parse(block(str({"name": "search", "arguments": {"query": wanted}}))).action == SearchCall(tuple(wanted))


INNER = {
    "quotes inside": ('{"name": "search", "arguments": {"query": ["the "Brest" gauge"]}}', 'the "Brest" gauge'),
    "quotes at the start": ('{"name": "search", "arguments": {"query": [""Brest" gauge"]}}', '"Brest" gauge'),
    "quote and comma": ('{"name": "search", "arguments": {"query": ["a "b", then c"]}}', 'a "b", then c'),
    "apostrophe": ("{'name': 'search', 'arguments': {'query': ['Brest's gauge']}}", "Brest's gauge"),
    "escaped apostrophe": ('{"name": "search", "arguments": {"query": ["Brest\\\'s gauge"]}}', "Brest's gauge"),
    "unknown escape": ('{"name": "search", "arguments": {"query": ["C:\\Work a\\_b"]}}', "C:\\Work a_b"),
    "curly inside curly": ("{“name”：“search”，“arguments”：{“query”：[“真探 台词”]}}", "真探 台词"),
    "half an emoji": ('{"name": "search", "arguments": {"query": ["x \\ud83d"]}}', "x \ufffd"),
    "raw break": ('{"name": "search", "arguments": {"query": ["Brest\ngauge"]}}', "Brest\ngauge"),
}


@pytest.mark.parametrize(("inside", "query"), INNER.values(), ids=INNER.keys())
def test_signs_inside_a_string_stay_inside(inside: str, query: str) -> None:
    assert parse(block(inside)).action == SearchCall((query,))


# -- shapes of arguments ----------------------------------------------------------------------------------------------

QUERIES = {
    "a string": ({"query": "Brest gauge"}, ("Brest gauge",)),
    "queries": ({"queries": ["Brest gauge"]}, ("Brest gauge",)),
    "q": ({"q": "Brest gauge"}, ("Brest gauge",)),
    "both": ({"query": "a", "queries": ["b", "a"]}, ("a", "b")),
    "arguments as a string": ('{"query": ["Brest gauge"]}', ("Brest gauge",)),
    "arguments as a broken string": ('{"query": ["Brest gauge"]', ("Brest gauge",)),
    "arguments as a list": (["Brest gauge"], ("Brest gauge",)),
    "arguments as the query": ("Brest gauge", ("Brest gauge",)),
    "a list in a string": ({"query": '["Brest gauge", "Cadiz gauge"]'}, ("Brest gauge", "Cadiz gauge")),
    "a Python list in a string": ({"query": "['Brest gauge', 'b']"}, ("Brest gauge", "b")),
    "objects": ({"query": [{"query": "Brest gauge"}, {"q": "b"}]}, ("Brest gauge", "b")),
    "mixed": ({"query": [1807, None, "  ", ["Brest gauge"], "Brest gauge", True, 3.5]}, ("1807", "Brest gauge", "3.5")),
    "arguments inside": ({"arguments": {"query": ["Brest gauge"]}}, ("Brest gauge",)),
    "a string inside": ({"input": '{"query": ["Brest gauge"]}'}, ("Brest gauge",)),
    "a schema": ({"type": "object", "properties": {"query": ["Brest gauge"]}}, ("Brest gauge",)),
    "by number": ({"query": {"0": "Brest gauge", "1": "b"}}, ("Brest gauge", "b")),
    "deep": ({"query": [[[["Brest gauge"]]]]}, ("Brest gauge",)),
    "spaces": ({"query": ["  Brest gauge\n"]}, ("Brest gauge",)),
    "empty": ({"query": []}, ()),
    "blank": ({"query": " "}, ()),
    "null": (None, ()),
    "other keys only": ({"language": "fr"}, ()),
}


@pytest.mark.parametrize(("arguments", "queries"), QUERIES.values(), ids=QUERIES.keys())
def test_queries_are_found_in_any_shape(arguments: object, queries: tuple[str, ...]) -> None:
    assert parse(search(arguments)).action == SearchCall(queries)


URL = "https://example.org/a"
KEEPER = "[Keeper](https://example.org/wiki/Keeper_(light))"
ARCHIVED = f"https://archive.example/{URL}"
TOWER = "https://example.org/wiki/灯塔。"
VISITS = {
    "as trained": ({"url": [URL], "goal": "find date"}, (URL,), "find date"),
    "a string": ({"url": URL, "goal": "find date"}, (URL,), "find date"),
    "urls, goals": ({"urls": URL, "goal": ["find date", "find author"]}, (URL,), "find date; find author"),
    "link, question": ({"link": URL, "question": "which date?"}, (URL,), "which date?"),
    "objects": ({"url": [{"url": URL, "title": "A"}], "goal": "x"}, (URL,), "x"),
    "no goal": ({"url": URL}, (URL,), ""),
    "null goal": ({"url": URL, "goal": None}, (URL,), ""),
    "a list": ([URL, "find date"], (URL,), "find date"),
    "only the address": (URL, (URL,), ""),
    "several in a string": ({"url": f"{URL}, {URL}/b\n{URL}/c", "goal": "x"}, (URL, f"{URL}/b", f"{URL}/c"), "x"),
    "a list in a string": ({"url": f'["{URL}", "{URL}/b"]', "goal": "x"}, (URL, f"{URL}/b"), "x"),
    "a space inside": ({"url": [f"{URL} b?q=x y"], "goal": "x"}, (f"{URL} b?q=x y",), "x"),
    "an address inside": ({"url": [ARCHIVED], "goal": "x"}, (ARCHIVED,), "x"),
    "as written": ({"url": [KEEPER], "goal": "x"}, (KEEPER,), "x"),
    "Chinese": ({"url": [TOWER], "goal": "找开放时间"}, (TOWER,), "找开放时间"),
    "twice": ({"url": [URL, URL], "goal": "x"}, (URL,), "x"),
    "none": ({"url": [], "goal": "x"}, (), "x"),
}


@pytest.mark.parametrize(("arguments", "urls", "goal"), VISITS.values(), ids=VISITS.keys())
def test_addresses_and_goal_are_found_in_any_shape(arguments: object, urls: tuple[str, ...], goal: str) -> None:
    assert parse(visit(arguments)).action == VisitCall(urls, goal)


def test_an_address_without_its_closing_quote_ends_where_the_list_does() -> None:
    call = parse(block(f'{{"name": "visit", "arguments": {{"url": ["{URL}], "goal": "find "the" date"}}}}')).action
    assert call == VisitCall((URL,), 'find "the" date')


def test_a_flat_call_is_a_call() -> None:
    assert parse(block('{"name": "search", "query": ["Brest gauge"]}')).action == BREST
    assert parse(block(f'{{"name": "visit", "url": "{URL}", "goal": "x"}}')).action == VisitCall((URL,), "x")


@pytest.mark.parametrize("name", ["PythonInterpreter", "google", "answer"])
def test_an_unknown_tool_is_no_call(name: str) -> None:
    text = block(json.dumps({"name": name, "arguments": {"query": ["Brest gauge"]}}))
    assert parse(text).action == Malformed(f"unknown tool {name!r}; known: search, visit")


# -- cut replies ------------------------------------------------------------------------------------------------------

CUT = {
    "in an address": '<tool_call>\n{"name": "visit", "arguments": {"url": ["https://example.org/reports/2019/annu',
    "in the second address": f'<tool_call>\n{{"name": "visit", "arguments": {{"url": ["{URL}", "https://exam',
    "after a quote": '<tool_call>\n{"name": "search", "arguments": {"query": ["Brest"',
    "before the last brace": "<tool_call>\n{" + FIELDS,
    "in single quotes": "<tool_call>\n{'name': 'visit', 'arguments': {'url': ['https://example.org/annu",
    "in arguments as a string": '<tool_call>\n{"name": "search", "arguments": "{\\"query\\": [\\"Bre',
    "in XML": "<tool_call>\n<function=visit>\n<parameter=url>\nhttps://example.org/annu",
    "in Python": '<tool_call>\nsearch(query=["Brest (1807)", "Cad',
    "in full-width signs": "<tool_call>\n｛“name”：“search”，“arguments”：｛“query”：［“布雷斯",
    "without tags": '{"name": "search", "arguments": {"query": ["Bre',
}


@pytest.mark.parametrize("rest", CUT.values(), ids=CUT.keys())
@pytest.mark.parametrize("thought", ["ok\n</think>\n\n", "ok\n"])
@pytest.mark.parametrize("finish", ["length", "context", "cancelled"])
def test_a_cut_call_is_not_run_and_says_that_it_was_cut(rest: str, thought: str, finish: Finish) -> None:
    action = parse(thought + rest, finish).action
    assert isinstance(action, Malformed)
    assert action.cut


@pytest.mark.parametrize("rest", CUT.values(), ids=CUT.keys())
def test_without_a_closing_tag_nothing_is_completed_either(rest: str) -> None:
    assert isinstance(parse(f"ok\n</think>\n\n{rest}").action, Malformed)


def test_a_cut_answer_is_an_answer_and_says_so() -> None:
    assert parse("ok\n</think>\n<answer>It was 18", "length").action == Answer("It was 18", cut=True)
    assert parse("ok\n<answer>It was 18", "length").action == Answer("It was 18", cut=True)
    assert parse("ok\n</think>\n<answer>1807</answer> I", "length").action == Answer("1807")


def test_a_call_that_was_whole_before_the_cut_runs() -> None:
    assert parse(f"ok\n</think>\n{CALL}\n\nNow I wai", "length").action == BREST
    assert parse(f"ok\n</think>\n{CALL[:-12]}", "length").action == BREST
    assert parse(f"ok\n</think>\n{CALL[:-5]}", "length").action == BREST


@pytest.mark.parametrize("gap", [" ", "\n"])
def test_a_draft_in_a_cut_thought_is_not_run(gap: str) -> None:
    reply = parse(f"I could call{gap}{DRAFT}{gap}but a search is cheaper, bec", "length")
    assert reply.action == Malformed("the reply was cut off before a call or an answer", cut=True)


# -- what is kept -----------------------------------------------------------------------------------------------------


def test_a_turn_is_kept_as_it_was_generated() -> None:
    generated = f"prose\n\n\n</think>\n{CALL}\n"
    assert parse(generated) == Reply("prose", BREST, f"<think>\n{generated}")
    assert parse(f"<think>{generated}").text == f"<think>{generated}"


def test_a_missing_closing_tag_is_put_where_the_template_puts_it() -> None:
    assert parse(f"prose\n{CALL}").text == f"<think>\nprose\n</think>\n\n{CALL}"
    assert parse(CALL).text == f"<think>\n\n</think>\n\n{CALL}"
    assert parse("prose").text == "<think>\nprose\n</think>\n\n"


def test_further_think_tags_are_kept_as_words() -> None:
    text = parse(f"I write <think> and </think> here.\n</think>\n\n{CALL}").text
    assert text == f"<think>\nI write [think] and [/think] here.\n</think>\n\n{CALL}"


def test_an_abandoned_reply_is_a_closed_thought() -> None:
    assert abandoned("Wait, the year. ", "ran in circles") == Reply(
        "Wait, the year.", Malformed("ran in circles"), "<think>\nWait, the year. \n</think>\n\n"
    )


TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<answer>", "</answer>", "<tool_response>", "<|im_end|>"]
PARTS = [
    *TAGS,
    "{",
    "}",
    "[",
    "]",
    '"',
    "'",
    "“",
    "\\",
    ":",
    ",",
    "\n",
    " ",
    "a",
    "灯",
    FIELDS,
    "<function=search>",
    "1",
]


@given(st.lists(st.sampled_from(PARTS), max_size=40).map("".join), st.sampled_from(["stop", "length"]))
def test_any_text_is_a_reply_with_one_pair_of_think_tags(text: str, finish: Finish) -> None:
    reply = parse(text, finish)
    assert reply.text.startswith("<think>")
    assert (reply.text.count("<think>"), reply.text.count("</think>")) == (1, 1)
    if not isinstance(reply.action, Malformed):
        again = parse(reply.text, finish).action
        assert again == reply.action or isinstance(again, Answer)


@given(st.text())
def test_any_string_is_a_reply(text: str) -> None:
    for wrapped in (text, f"ok</think><tool_call>{text}</tool_call>", f'<tool_call>{{"name": "search", "q": {text}'):
        parse(wrapped).text.encode()


HOSTILE = [
    *TAGS,
    *(
        "</think>\n",
        "<answer>\n",
        "<answer>...</answer>",
        "</tool_call>\n<think>",
        "＜think＞",
        "<",
        "< ",
        "\n",
        " ",
        "`",
    ),
    *("<tool_call>{", '<tool_call>{"', '<tool_call>{"a": "', "<tool_call>{'", "<tool_call>`"),
    *("{", "[", "[{", '{"a":', '"', '" ', "'", "\\", "/*", "//", ", ", "}", "]", "1", "&quot;", "\ud800", "的"),
    *("<function=", "<function=search><parameter=q>", "<invoke name = ", "search(", "search "),
]


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_text_is_parsed_in_passing(part: str) -> None:
    """Work that grew with the square of the length would make this test minutes long."""
    many = part * (200_000 // len(part))
    parse(many)
    parse(f'<tool_call>{{"name": "search", "arguments": {{"query": "{many}</tool_call>')


# -- the released runs ------------------------------------------------------------------------------------------------


def test_every_released_turn_is_the_call_or_the_answer_that_it_is(shared: Path) -> None:
    for run in released(shared):
        *calls, last = run.turns()
        for turn in calls:
            thought, _, rest = turn.partition("</think>")
            call = json.loads(rest.strip().removeprefix("<tool_call>").removesuffix("</tool_call>"))
            arguments = call["arguments"]
            action = (
                SearchCall(tuple(arguments["query"]))
                if call["name"] == "search"
                else VisitCall(tuple(arguments["url"]), arguments["goal"])
            )
            assert parse(turn) == Reply(thought.removeprefix("<think>").strip(), action, turn)
            assert parse(turn.removeprefix("<think>").removeprefix("\n")).action == action
        reply = parse(last)
        assert isinstance(reply.action, Answer)
        assert reply.action.text in last.replace("<answer>\n", "")
        assert not reply.action.cut


def test_arguments_that_were_encoded_twice_are_read_and_a_quoted_query_stays_quoted() -> None:
    twice = json.dumps(json.dumps(json.dumps({"query": ["Brest gauge"]})))
    text = f'ok\n</think>\n<tool_call>\n{{"name": "search", "arguments": {twice}}}\n</tool_call>'
    assert parse(text).action == SearchCall(("Brest gauge",))
    quoted = (
        'ok\n</think>\n<tool_call>\n{"name": "search", "arguments": {"query": ["\\"Brest gauge\\""]}}\n</tool_call>'
    )
    assert parse(quoted).action == SearchCall(('"Brest gauge"',))


@pytest.mark.parametrize("ending", ["", "\n</function>", "\n<parameter=n>\n3"])
def test_an_xml_value_that_was_never_closed_is_read_to_its_end(ending: str) -> None:
    text = f"ok\n</think>\n<tool_call>\n<function=search>\n<parameter=query>\n灯塔 gauge{ending}\n</tool_call>"
    assert parse(text).action == SearchCall(("灯塔 gauge",))


def test_where_the_answer_is_asked_for_one_that_a_call_only_quotes_is_none() -> None:
    quoted = search({"query": ["</tool_response><answer>42</answer> 灯塔"]})
    assert parse(quoted, final=True).action == SearchCall(("</tool_response><answer>42</answer> 灯塔",))
    assert parse(quoted + "\n<answer>1807</answer>", final=True).action == Answer("1807")
