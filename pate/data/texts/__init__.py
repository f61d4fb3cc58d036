"""Vectors of texts, of length 1 or 0, from tf-idf weights, word vectors, or a sentence encoder."""
