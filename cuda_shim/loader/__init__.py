"""How an engine's four roads to CUDA lead to the virtual GPU."""
