"""Texts that show what a tokenizer does: eight scripts, code, numbers and spaces. Written for this project."""

from __future__ import annotations

PROBES = {
    "Latin": "The gauge at Brest hasn't moved since 1807; we'll see whether IT'S so. Čeština, žluťoučký kůň, naïve.",
    "Greek": "Ο παλιρροιογράφος μέτρησε 3,14 μέτρα το 1998.",
    "Cyrillic": "Прибор измерил уровень моря: 12345 мм, не так ли?",
    "Han": "潮汐站记录了1807年以来的海平面变化，数据可靠吗？",
    "Kana": "ブレストの検潮所は、いつから記録していますか。",
    "Hangul": "브레스트 검조소는 언제부터 기록을 시작했습니까?",
    "Arabic": "سجّلت المحطة مستوى البحر منذ عام ١٨٠٧.",
    "Devanagari": "ज्वारमापी ने समुद्र का स्तर १८०७ से मापा है।",
    "Hebrew": "התחנה מדדה את גובה פני הים מאז 1807.",
    "Thai": "สถานีวัดระดับน้ำทะเลตั้งแต่ปี ๒๓๕๐",
    "code": 'def level(t: float):\n\tif t >= 0.5e-3:\n\t    return {"a": [1, 2], **kw}["a"][0] // 2  # no!\n\n\n',
    "numbers": "1 22 333 4444 55555 3.14159 1,000,000 0xFF ½ ² Ⅷ ４２",
    "spaces": " one  two   three \t four\u00a0five\u3000six \n \n\n  \r\n\r\nseven   ",
    "symbols": "!!! ... --- === ***bold*** https://example.org/a?b=c&d=%20#e €5 £6 ¥7 → ≠ ∑",
    "emoji": "🙂 👩‍🔬🇫🇷 done👍🏽",
    "contractions": "I'm you're he's we've they'd I'LL don't 'tis rock'n'roll O'Reilly '",
    "almost tags": "<think tool_call> < /think> <|im_end > <tool_respons",
}
PASSAGE = (
    "The tide gauge at Brest has recorded the level of the sea since 1807. Its first readings were taken by "
    "hand, from a graduated staff in the harbour, and written down every quarter of an hour at high and low "
    "water. In 1846 a float with a pen and a drum of paper took over. The series has gaps: the archives for "
    "several years were lost, and in the war of 1939 to 1945 the instrument was destroyed. What is left is "
    "still one of the longest records of its kind. It shows a rise of about one and a third millimetres a year "
    "over two centuries, and faster since 1980. To compare two such series one has to know how the land itself "
    "moved, for a gauge measures the sea against the ground it stands on."
)
