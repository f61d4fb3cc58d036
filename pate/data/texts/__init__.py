"""Texts as vectors of length 1, which public texts, a file of word vectors or an encoder of sentences make."""
