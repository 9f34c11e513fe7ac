#!/usr/bin/env python3
"""Files of word vectors in word2vec's formats, by gensim 4.4.0: data/word_vectors/gensim.txt and gensim.bin. Value c of word r
is (r + 1) / (c + 3), negative where r + c is odd."""
import os

import numpy
from gensim.models import KeyedVectors

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'data', 'word_vectors')
os.makedirs(folder, exist_ok=True)
words = ['the', 'of', 'na\u00efve', '\u65e5\u672c', '3.14']
values = [[(r + 1) * (-1 if (r + c) % 2 else 1) / (c + 3) for c in range(7)] for r in range(len(words))]
vectors = KeyedVectors(7)
vectors.add_vectors(words, numpy.array(values, numpy.float32))
vectors.save_word2vec_format(os.path.join(folder, 'gensim.txt'), binary=False, sort_attr='none')
vectors.save_word2vec_format(os.path.join(folder, 'gensim.bin'), binary=True, sort_attr='none')
