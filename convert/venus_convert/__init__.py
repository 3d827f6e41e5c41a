"""CHECKPOINT -> GGUF: a Hugging Face checkpoint folder becomes a file that llama.cpp loads, checked."""
