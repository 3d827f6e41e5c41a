"""CHECKPOINT -> GGUF -> QUANTIZED -> CHECKED: a Hugging Face checkpoint folder becomes a file that llama.cpp loads.

cli          what a person types                                   job        what is wanted -> files, each made once
convert      open, plan, write: the order of these steps           values     what crosses between them
checkpoint   a folder -> what is in it, every damage an error      tensors    its names and shapes -> llama.cpp's
rope         config -> window, theta and scaling (pure)            vocab      tokenizer files -> tokens, types, stop ids
metadata     all of it -> the pairs of the file                    numbers    one number type -> another, or refused
write        pairs and tensors -> a GGUF file                      read       a GGUF file -> pairs and places
quantize     a GGUF -> a smaller one, by llama.cpp                 imatrix    an importance matrix, either form
verify       a GGUF -> a table of checks, with llama.cpp           checks     those that need no llama.cpp
bpe          Qwen's tokenizer, written out, to check against       probes     the texts it is checked on
record       what a file was made from: is it up to date?
"""
