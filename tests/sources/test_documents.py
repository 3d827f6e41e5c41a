"""Documents are read page by page or section by section; what cannot be read is said to be what it is."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
import zlib
from importlib.util import find_spec
from pathlib import Path

import pytest

from venus_edge.sources import documents
from venus_edge.sources.extract import Extracted, extract
from venus_edge.values import Failure, Trouble

URL = "https://example.org/download?id=7"
ABOUT = (
    "<cp:coreProperties xmlns:cp='urn:cp' xmlns:dc='urn:dc'><dc:title>Kéréon</dc:title><dc:creator>作者</dc:creator>"
    "</cp:coreProperties>"
)


def packed(**parts: str | bytes) -> bytes:
    """A zip file; "__" in a name is a slash."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in parts.items():
            file.writestr(name.replace("__", "/"), data)
    return out.getvalue()


def read(body: bytes) -> Extracted:
    found = extract(body, URL, "application/octet-stream")
    assert isinstance(found, Extracted), found
    return found


def refused(body: bytes) -> str:
    found = extract(body, URL)
    assert isinstance(found, Failure), found
    assert found.trouble is Trouble.UNREADABLE
    return found.detail.removeprefix("page could not be read: ")


# -- PDF -------------------------------------------------------------------------------------------------------------

needs_reader = pytest.mark.skipif(not find_spec("pypdfium2") and not find_spec("pypdf"), reason="no PDF reader")


def pdf(*pages: str, title: str = "Levels", picture: bool = False) -> bytes:
    """A PDF of one line a page, with a picture on each by wish."""
    behind = "q 612 0 0 792 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID 0 EI Q " if picture else ""
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Title ({title}) >>".encode(),
    ]
    for n, text in enumerate(pages):
        drawn = zlib.compress((behind + (f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET" if text else "")).encode())
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {6 + 2 * n} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(f"<< /Length {len(drawn)} /Filter /FlateDecode >>\nstream\n".encode() + drawn + b"\nendstream")
    out, places = bytearray(b"%PDF-1.4\n"), []
    for n, value in enumerate(objects, 1):
        places.append(len(out))
        out += f"{n} 0 obj\n".encode() + value + b"\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{place:010} 00000 n \n".encode() for place in places)
    out += f"trailer << /Size {len(objects) + 1} /Root 1 0 R /Info 4 0 R >>\nstartxref\n{start}\n%%EOF".encode()
    return bytes(out)


@needs_reader
def test_a_pdf_is_read_page_by_page_whatever_it_is_called() -> None:
    assert read(pdf("The lamp was lit in 1916.", "", "Its height is 41 metres.")) == Extracted(
        "Levels", "## Page 1\n\nThe lamp was lit in 1916.\n\n## Page 3\n\nIts height is 41 metres.", kind="pdf"
    )


@needs_reader
def test_a_scanned_pdf_is_said_to_be_one() -> None:
    assert refused(pdf("", "2", "", picture=True)) == "it is a scanned PDF document of 3 pages: images without text"
    assert refused(pdf("", picture=True)) == "it is a scanned PDF document of 1 pages: images without text"


@needs_reader
def test_a_pdf_of_few_words_is_read_and_one_of_none_is_no_scan() -> None:
    assert read(pdf("Lit: 1916")).text == "## Page 1\n\nLit: 1916"
    assert read(pdf("", "2", "")).text == "## Page 2\n\n2"
    assert read(pdf("The lamp was lit in 1916.", "", picture=True)).text == "## Page 1\n\nThe lamp was lit in 1916."
    assert refused(pdf("", "")) == "it is a PDF document of 2 pages without text"


@needs_reader
@pytest.mark.parametrize("body", [b"%PDF-1.7 x", pdf("lamp" * 50)[:200], b"%PDF-1.4\n" + bytes(range(256)) * 400])
def test_a_damaged_pdf_is_said_to_be_one(body: bytes) -> None:
    assert refused(body) == "it is a damaged PDF document"


def test_without_a_reader_the_failure_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child = tmp_path / "child.py"
    child.write_text('print(\'{"trouble": "missing"}\')')
    monkeypatch.setattr(documents, "_CHILD", child)
    assert "pip install 'venus-edge[pdf]'" in refused(pdf("x"))
    child.write_text("import os; os.abort()")
    assert refused(pdf("x")) == "it is a damaged PDF document"
    child.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(documents, "_PDF_SECONDS", 0.2)
    assert refused(pdf("x")) == "the PDF document took more than 0.2 s"


def test_pypdf_stands_in_for_pypdfium2() -> None:
    pytest.importorskip("pypdf")
    hidden = "import sys, runpy; sys.modules['pypdfium2'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", hidden, str(documents._CHILD)], input=pdf("The lamp"), capture_output=True, check=True
    )
    assert b"The lamp" in done.stdout


def test_a_word_divided_at_the_end_of_a_line_is_whole_again() -> None:
    assert documents._paragraphs("the light-\nhouse of\r\n 1916 \n\n\n\nEnd") == "the lighthouse of\n1916\n\nEnd"


# -- zip files of XML ------------------------------------------------------------------------------------------------


def word(body: str) -> str:
    return f"<w:document xmlns:w='urn:w'><w:body>{body}</w:body></w:document>"


def paragraph(text: str, more: str = "") -> str:
    return f"<w:p><w:pPr>{more}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def test_word_is_read_with_headings_lists_tables_and_notes() -> None:
    cell = "<w:tc>{}</w:tc>"
    rows = "".join(
        f"<w:tr>{cell.format(paragraph(a))}{cell.format(paragraph(b))}</w:tr>"
        for a, b in (("Year", "mm"), ("1990", "6|9"))
    )
    body = (
        paragraph("灯塔", "<w:pStyle w:val='Heading2'/>")
        + "<w:p><w:r><w:t>Lit </w:t></w:r><w:r><w:t>in 1916.</w:t><w:delText>not this</w:delText></w:r></w:p>"
        + paragraph("first", "<w:numPr/>")
        + f"<w:tbl>{rows}</w:tbl>"
        + paragraph("After.")
    )
    notes = "<w:footnotes xmlns:w='urn:w'><w:footnote>" + paragraph("A note.") + "</w:footnote></w:footnotes>"
    parts = {"word__document.xml": word(body), "word__footnotes.xml": notes, "docProps__core.xml": ABOUT}
    assert read(packed(**{"[Content_Types].xml": "<x/>" * 3000}, **parts)) == Extracted(
        "Kéréon",
        "## 灯塔\n\nLit in 1916.\n\n- first\n\n"
        "| Year | mm |\n| --- | --- |\n| 1990 | 6\\|9 |\n\nAfter.\n\n## Notes\n\n- A note.",
        author="作者",
        kind="office",
    )


@pytest.mark.parametrize(
    ("style", "named", "title"),
    [
        ("<w:pStyle w:val='Heading1'/>", "", "灯塔年度报告"),
        ("<w:pStyle w:val='Title'/>", "", "Annual report"),
        ("<w:outlineLvl w:val='0'/>", "", "年报"),
        ("<w:pStyle w:val='a3'/>", "<w:style w:styleId='a3'><w:name w:val='Title'/></w:style>", "报告"),
        ("<w:pStyle w:val='2'/>", "<w:style w:styleId='2'><w:name w:val='heading 1'/></w:style>", "Report"),
    ],
)
def test_the_first_heading_is_the_title_of_a_word_document_that_names_none(style: str, named: str, title: str) -> None:
    styles = f"<w:styles xmlns:w='urn:w'>{named}</w:styles>"
    body = word(paragraph(title, style) + paragraph("The first paragraph."))
    found = read(packed(**{"word__document.xml": body, "word__styles.xml": styles}))
    assert (found.title, found.text) == (title, f"# {title}\n\nThe first paragraph.")


def test_slides_are_read_in_their_order_with_notes() -> None:
    def slide(text: str) -> str:
        return f"<p:sld xmlns:p='urn:p' xmlns:a='urn:a'><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>"

    parts = {f"ppt__slides__slide{n}.xml": slide(f"text {n}") for n in (10, 2, 1)}
    parts["ppt__notesSlides__notesSlide2.xml"] = slide("said")
    assert read(packed(ppt__presentation__xml="", **{"ppt__presentation.xml": "<p/>"}, **parts)).text == (
        "## Slide 1\n\ntext 1\n\n## Slide 2\n\ntext 2\n\nNote: said\n\n## Slide 3\n\ntext 10"
    )


def test_sheets_are_read_as_tables() -> None:
    space = "xmlns='urn:x'"
    rows = (
        "<row><c r='A1' t='s'><v>0</v></c><c r='C1' t='inlineStr'><is><t>mm</t></is></c></row><row/>"
        "<row><c r='A3'><v>1990</v></c><c r='C3'><v>6940</v></c></row>"
    )
    parts = {
        "xl__workbook.xml": f"<workbook {space}><sheets><sheet name='水位'/></sheets></workbook>",
        "xl__sharedStrings.xml": f"<sst {space}><si><r><t>Ye</t></r><r><t>ar</t></r></si></sst>",
        "xl__worksheets__sheet1.xml": f"<worksheet {space}><sheetData>{rows}</sheetData></worksheet>",
    }
    assert read(packed(**parts)).text == "## 水位\n\n| Year |  | mm |\n| --- | --- | --- |\n| 1990 |  | 6940 |"


def test_opendocument_is_read() -> None:
    content = (
        "<d xmlns:t='urn:t' xmlns:b='urn:b'><t:h t:outline-level='2'>Lamp</t:h><t:p>Lit in <t:s>1916</t:s>.</t:p>"
        "<b:table><b:table-row><b:table-cell><t:p>1</t:p></b:table-cell><b:table-cell>2</b:table-cell></b:table-row></b:table></d>"
    )
    body = packed(**{"content.xml": content, "meta.xml": ABOUT, "META-INF__manifest.xml": "<m/>"})
    assert read(body) == Extracted("Kéréon", "## Lamp\n\nLit in 1916.\n\n| 1 | 2 |", author="作者", kind="office")


def test_a_book_is_read_in_the_order_of_its_spine() -> None:
    package = (
        "<package xmlns='urn:o' xmlns:dc='urn:dc'><metadata><dc:title>Lamps</dc:title></metadata><manifest>"
        "<item id='a' href='one%20.xhtml'/><item id='b' href='two.xhtml'/></manifest>"
        "<spine><itemref idref='b'/><itemref idref='a'/><itemref idref='gone'/></spine></package>"
    )
    container = "<c><rootfiles><rootfile full-path='OEBPS/book.opf'/></rootfiles></c>"
    parts = {"META-INF__container.xml": container, "OEBPS__book.opf": package}
    parts |= {
        "OEBPS__one .xhtml": "<html><body><p>First.</p></body></html>",
        "OEBPS__two.xhtml": "<h1>Zwei</h1><script>x</script>",
    }
    found = read(packed(mimetype="application/epub+zip", **parts))
    assert found.text == "# Lamps\n\n## Section 1\n\n# Zwei\n\n## Section 2\n\nFirst."
    assert (found.kind, found.title) == ("epub", "Lamps")
    unnamed = read(packed(**parts | {"OEBPS__book.opf": package.replace("<dc:title>Lamps</dc:title>", "")}))
    assert unnamed.title == "Zwei"


def test_what_is_damaged_locked_too_large_or_another_thing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    good = packed(**{"word__document.xml": word(paragraph("x" * 5000))})
    assert refused(good[:-30]) == "it is a damaged, cut or locked document"
    assert refused(packed(**{"word__other.xml": "<x/>"})) == "it is a document of a kind that is not read"
    assert refused(packed(**{"word__document.xml": word("")})) == "it is a document without text"
    assert (
        refused(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
        == "it is an office document in a format from before 2007"
    )
    monkeypatch.setattr(documents, "_MOST_BYTES", 4000)
    assert refused(good) == "it is a document that unpacks to too much, or is damaged"


def test_entities_of_a_document_are_not_expanded() -> None:
    bomb = "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b SYSTEM 'file:///etc/passwd'>]>"
    found = extract(packed(**{"word__document.xml": bomb + word(paragraph("lamp &a; &b;"))}), URL)
    assert isinstance(found, Extracted)
    assert found.text.strip() == "lamp"
