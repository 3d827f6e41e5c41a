"""WHAT A CALL MAY LOOK LIKE, as GBNF: from behind `<tool_call>` to `</tool_call>`, after which the turn ends.

The two tools with their arguments, in the order and the JSON that DR-Venus was trained on (PROTOCOL section 2); white
space as any `json.dumps` sets it. How a grammar binds a model is the engine's.
"""

from __future__ import annotations

OPEN_CALL = "<tool_call>"

CALL_GRAMMAR = r"""root ::= ws "{" ws "\"name\"" colon (search | visit) ws "}" ws "</tool_call>"
search ::= "\"search\"" comma "\"arguments\"" colon "{" ws "\"query\"" colon strings ws "}"
visit ::= "\"visit\"" comma "\"arguments\"" colon "{" ws "\"url\"" colon strings comma "\"goal\"" colon string ws "}"
strings ::= "[" ws string (comma string)* ws "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" hex hex hex hex)
hex ::= [0-9a-fA-F]
colon ::= ws ":" ws
comma ::= ws "," ws
ws ::= [ \t\r\n]{0,16}
"""
