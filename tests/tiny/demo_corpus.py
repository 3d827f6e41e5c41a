"""Writes the demo corpus: pages of places that venus-tiny never saw in training, and questions about them.

    python -m tests.tiny.demo_corpus venus_edge/demo

In: the generator of `episodes.py`, held-out names only. Out: `atlas/*.html` and `questions.toml`, always the same.
"""

from __future__ import annotations

import html
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.tiny import episodes

PLACES, QUESTIONS, SEED = 24, 8, 20_261

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<link rel="canonical" href="{url}">
</head>
<body>
<header><a href="https://atlas.example/">An atlas of places that do not exist</a></header>
<main>
<h1>{title}</h1>
<p>{text}</p>
</main>
<footer>Invented for venus-edge; public domain.</footer>
</body>
</html>
"""


def pages(count: int, seed: int) -> Iterator[episodes.Page]:
    """Pages of `count` different places, none of which training ever named."""
    rng = random.Random(seed)
    seen: set[str] = set()
    while len(seen) < count:
        entity = episodes.draw_entity(rng, held=True)
        if entity.name not in seen:
            seen.add(entity.name)
            yield episodes.draw_page(rng, entity)


def write_corpus(folder: Path, found: list[episodes.Page]) -> None:
    """One HTML file a page, as a site would serve it; pages of an earlier corpus go."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.html"):
        old.unlink()
    for page in found:
        text = PAGE.format(title=page.entity.title, url=page.entity.url, text=html.escape(page.text))
        (folder / f"{page.entity.name}.html").write_text(text, encoding="utf-8")


def questions(found: list[episodes.Page], count: int, seed: int) -> list[episodes.Question]:
    """`count` questions about the first places, every attribute in turn."""
    rng = random.Random(seed)
    attributes = episodes.ATTRIBUTES
    return [episodes.draw_question(rng, p.entity, attributes[i % len(attributes)]) for i, p in enumerate(found[:count])]


def main() -> None:
    demo = Path(sys.argv[1])
    found = list(pages(PLACES, SEED))
    write_corpus(demo / "atlas", found)
    tables = (f'[[question]]\ntext = "{q.text}"\nexpect = "{q.value}"\n' for q in questions(found, QUESTIONS, SEED))
    (demo / "questions.toml").write_text("\n".join(tables), encoding="utf-8")


if __name__ == "__main__":
    main()
