"""WHOLE PAGE -> WHAT IS WORTH READING. Our own pruner: the second opinion beside readability.

In: a parsed page, which it changes. Out: the element that holds the content, without scripts, menus, footers, consent
notices and lists of links that lead away, and the parts taken out that a reader may still want. It judges structure
(tags, roles, class names, link density), never a site.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lxml.html import HtmlElement


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_DEAD = _names(
    "script style noscript template svg iframe object embed canvas audio video select textarea input link meta base"
)
_AWAY = ("nav", "footer", "aside", "dialog")
_AWAY_ROLES = _names("navigation banner contentinfo complementary dialog alertdialog search menu menubar")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.I)
_FOLDED = re.compile(r"accordion|collaps|tab-?(?:panel|content|pane)\b|drawer|\bfaq|expand", re.I)
_BOILERPLATE = re.compile(
    r"(?:^|[\s_-])(?:nav(?:bar|igation)?|menus?|footer|site-?header|masthead|sidebar|side-?bar|breadcrumbs?|cookies?|consent|gdpr"
    r"|share|sharing|social|related|recommend(?:ed|ations?)?|promo(?:tion)?s?|newsletter|subscribe|signup|advert(?:isement)?s?"
    r"|ads?|banner|popup|modal|overlay|pagination|pager|toolbar|skip-?link|widget|sponsor(?:ed)?|toc|login|offscreen"
    r"|screen-reader-text|sr-only|visually-?hidden)(?:$|[\s_-])",
    re.I,
)
_NOTICE = re.compile(  # of the parts taken out, those that say nothing of the page's matter
    r"(?:^|[\s_-])(?:cookies?|consent|gdpr|share|sharing|social|newsletter|subscribe|signup|advert(?:isement)?s?|ads?|popup|modal"
    r"|overlay|skip-?link|sponsor(?:ed)?|login|offscreen|screen-reader-text|sr-only|visually-?hidden)(?:$|[\s_-])",
    re.I,
)
_BLOCK_TAGS = _names("div section ul ol table header form p span li dl")
_KEEP_SHARE = 0.3  # a named block that holds this much of the page is the page
_REVEALED = 0.5  # what is hidden and holds more of the page than this is shown by a script
_NAMED_SHARE = 0.6  # if named blocks hold more of the page than this together, their names mean something else
_AFTER_MENU = 300  # characters after the title that make the lists before it menus
_MAIN_SHARE = 0.35
_ARTICLE_SHARE = 0.5
_LINKED = 0.75  # of a link list's text is link text
_LED = 0.6  # of a menu's text is link text
_ASKING = 300  # characters that a form needs for its labels
_SHORT_LINK = 45  # characters: menus have short links, lists of papers long ones


def weight(element: HtmlElement) -> int:
    """The characters of an element's text, a run of white space as one."""
    return int(_length()(element))


@cache
def _length() -> Any:
    from lxml import etree

    return etree.XPath("string-length(normalize-space())")


def whole(root: HtmlElement) -> HtmlElement:
    """The whole body without what is no text at all: scripts, styles, hidden elements, menus and footers stay out."""
    body = root.find(".//body")
    return body if body is not None else root


def without_script(root: HtmlElement) -> str:
    """What the page says in <noscript>, and in frames to those who see none. Where the first is more than the rest
    says, it becomes the page: forums and catalogues keep a copy there for readers like us."""
    asides = [n for n in root.iter("noscript") if next(n.iterancestors("head"), None) is None]
    text = "\n".join(" ".join(n.itertext()) for n in [*asides, *root.iter("iframe")])
    body = whole(root)
    scripts = sum(len(s.text or "") for s in body.iter("script", "style"))
    if len(text) + 2 * len(_CJK.findall(text)) > 400 and len(text) * 2 > weight(body) - scripts:
        for element in asides:
            element.tag = "div"
    return text


def clean(root: HtmlElement) -> None:
    """Takes out what no reader sees."""
    for form in list(root.iter("form")):
        _settle(form)
    _place_streamed(root)
    for element in list(root.iter("template")):
        if element.get("shadowrootmode"):  # is drawn without a script
            element.tag = "div"
    for element in list(root.iter(*_DEAD)):
        drop(element)
    hidden = [e for e in root.xpath("//*[@hidden or @style or @aria-hidden='true']") if _is_hidden(e)]
    most = weight(whole(root)) * _REVEALED if hidden else 0
    for element in hidden:
        if weight(element) <= most:
            drop(element)
    for element in list(root.iter("button")):
        if not _is_heading_button(element):
            drop(element)


def _is_hidden(element: HtmlElement) -> bool:
    """Hidden from everybody. A part that a click unfolds is content."""
    if element.tag == "math" or element.find(".//math") is not None:  # for those who hear the page: the image is not it
        return False
    if element.get("role") == "tabpanel" or _FOLDED.search(f"{element.tag} {element.get('class')} {element.get('id')}"):
        return False
    hidden = element.get("hidden") is not None and element.get("hidden") != "until-found"
    return hidden or element.get("aria-hidden") == "true" or bool(_HIDDEN.search(element.get("style") or ""))


def _place_streamed(root: HtmlElement) -> None:
    """Puts the parts of a page that React sends after its frame where its script would put them: hidden elements S:n
    into the place of the templates P:n or B:n."""
    parts = root.xpath("//*[@hidden][starts-with(@id, 'S:')]")
    places = {t.get("id"): t for t in root.iter("template") if t.get("id")} if parts else {}
    for part in parts:
        del part.attrib["hidden"]
        number = part.get("id")[2:]
        place = places.get(f"P:{number}", places.get(f"B:{number}"))
        if place is not None and place.getparent() is not None and part not in place.iterancestors():
            drop(part)
            part.tail = None
            place.addprevious(part)


def _settle(form: HtmlElement) -> None:
    """A form with something to read in it is a part of the page (shops and some frameworks wrap everything in one); a
    form that only asks is not."""
    controls = sum(1 for e in form.iter("input", "select", "textarea") if e.get("type") != "hidden")
    if not controls or weight(form) > _ASKING:
        form.tag = "div"
    elif form.find(".//input[@type='password']") is None:
        drop(form)


def _is_heading_button(element: HtmlElement) -> bool:
    """The question of an accordion is a button with text; a control is one or two words."""
    parent = element.getparent()
    in_heading = parent is not None and parent.tag in ("h2", "h3", "h4", "h5", "dt", "summary")
    return in_heading or len("".join(element.itertext()).split()) > 4


def prune(root: HtmlElement) -> tuple[HtmlElement, list[HtmlElement]]:
    """The content of a cleaned page, and what was taken out of it or stood beside it and is no notice."""
    body = whole(root)
    total = weight(body) or 1
    dropped: list[HtmlElement] = []
    for element in list(_away(body)):
        if element is not body and (weight(element) < total * _KEEP_SHARE or _leads_away(element)):
            dropped.append(element)
            drop(element)
    dropped += _drop_named(body, total)
    content = _main(body)
    dropped += _drop_link_lists(content)
    return content, [e for e in dropped if not _NOTICE.search(f"{e.get('class') or ''} {e.get('id') or ''}")]


def _away(body: HtmlElement) -> Iterator[HtmlElement]:
    for element in body.iter(*_AWAY):
        if next(element.iterancestors("blockquote", "figure"), None) is None:  # there a footer says who said it
            yield element
    for element in body.xpath(".//*[@role]"):
        if (element.get("role") or "").strip().lower() in _AWAY_ROLES:
            yield element
    for form in body.iter("form"):
        if form.get("role") == "search":
            yield form


def _leads_away(element: HtmlElement) -> bool:
    """A menu or footer of links and their labels, however large a part of the page it is."""
    if element.tag not in ("nav", "footer"):
        return False
    return sum(weight(a) for a in element.iter("a")) > weight(element) * _LED


def is_links(element: HtmlElement) -> bool:
    """Whether an element says nothing but links."""
    return sum(weight(a) for a in element.iter("a")) >= max(1, weight(element)) * 0.9


def _drop_named(body: HtmlElement, total: int) -> list[HtmlElement]:
    """Takes out the blocks whose names say that they are no content; these blocks."""
    doomed: dict[HtmlElement, int] = {}
    named: dict[str, bool] = {}
    for element in body.iter(*_BLOCK_TAGS):
        names = f"{element.get('class') or ''} {element.get('id') or ''}"
        if names not in named:
            named[names] = len(names) > 1 and bool(_BOILERPLATE.search(names))
        if named[names] and not any(a in doomed for a in element.iterancestors()):
            size = weight(element)
            if size < total * _KEEP_SHARE and _is_aside(element):
                doomed[element] = size
    misnamed = sum(doomed.values()) > _NAMED_SHARE * (weight(body) or 1)
    dropped = [element for element in doomed if not misnamed or _is_link_list(element)]
    for element in dropped:
        drop(element)
    return dropped


def _is_aside(element: HtmlElement) -> bool:
    return element.find(".//h1") is None and element.find(".//main") is None


def _main(body: HtmlElement) -> HtmlElement:
    total = weight(body) or 1
    mains = body.xpath(".//main | .//*[@role='main']")
    if mains and weight(mains[0]) >= total * _MAIN_SHARE:
        return mains[0]
    articles = [a for a in body.iter("article") if next(a.iterancestors("article"), None) is None]
    if len(articles) == 1 and weight(articles[0]) >= total * _ARTICLE_SHARE:
        return articles[0]
    return body


def _drop_link_lists(content: HtmlElement) -> list[HtmlElement]:
    """Takes out lists of short links, but for the last one: a page that is a list of links is read as one. These
    lists."""
    dropped: list[HtmlElement] = []
    for element in _before_title(content):
        if _is_link_list(element):
            dropped.append(element)
            drop(element)
    total = weight(content) or 1
    for element in list(content.iter("ul", "ol")):
        inner = next(element.iterancestors("ul", "ol", "table"), None) is not None
        small = weight(element) < total * _KEEP_SHARE
        if small and not inner and _is_link_list(element) and not _is_reference_list(element):
            dropped.append(element)
            drop(element)
    return dropped


def _before_title(content: HtmlElement) -> list[HtmlElement]:
    """The outermost lists before the first heading, if enough follows it."""
    lists: list[HtmlElement] = []
    for element in content.iter("ul", "ol", "h1"):
        if element.tag != "h1":
            if next(element.iterancestors("ul", "ol"), None) is None:
                lists.append(element)
            continue
        after = weight(content) - sum(weight(e) for e in lists)
        return [e for e in lists if e not in element.iterancestors()] if after >= _AFTER_MENU else []
    return []


def _is_reference_list(element: HtmlElement) -> bool:
    """A list inside an article that leads to other sites: the article's references."""
    if next(element.iterancestors("article"), None) is None:
        return False
    links = [a.get("href") or "" for a in element.iter("a")]
    return sum(str(h).startswith(("http://", "https://")) for h in links) * 2 > len(links)


def _is_link_list(element: HtmlElement) -> bool:
    links = [weight(a) for a in element.iter("a")]
    text = weight(element)
    return bool(links) and sum(links) > text * _LINKED and sum(links) < len(links) * _SHORT_LINK


def drop(element: HtmlElement) -> None:
    """Takes an element out; the text after it stays."""
    parent = element.getparent()
    if parent is None:
        return
    if element.tail:
        before = element.getprevious()
        if before is not None:
            before.tail = (before.tail or "") + element.tail
        else:
            parent.text = (parent.text or "") + element.tail
    parent.remove(element)
