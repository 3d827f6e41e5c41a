"""venus-edge: a deep-research agent on the computer in front of you.

The way of the data:
    question -> messages            protocol.prompt
    -> prompt pieces -> token ids   protocol.rendering, engine
    -> text -> reply                engine, protocol.parse
    -> search hits, pages           tools, sources, corpus
    -> tool response -> ... -> answer + sources
"""

__version__ = "0.1.0"
