"""CHECKPOINT -> GGUF -> QUANTIZED -> CHECKED: a Hugging Face checkpoint folder becomes a file that llama.cpp loads.

checkpoint   a folder -> what is in it, every damage an error     tensors   its names and shapes -> llama.cpp's
rope         config -> window, theta and scaling (pure)           vocab     tokenizer files -> tokens, types, stop ids
metadata     all of it -> the key-value pairs of the file         write     pairs and tensors -> a GGUF file
quantize     bf16 GGUF -> Q4_K_M and its kin, through llama.cpp   verify    a GGUF -> a table of checks
convert      the order of these steps                             cli       what a person types
"""
