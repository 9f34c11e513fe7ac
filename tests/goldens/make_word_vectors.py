#!/usr/bin/env python3
"""Files of word vectors, in data/word_vectors:

    gensim.txt, gensim.bin     word2vec's formats, by gensim 4.4.0. Value c of word r is (r + 1) / (c + 3), negative where
                               r + c is odd
    fasttext.bin               a model that fastText 0.9.2 (fasttext-wheel) has trained, and fasttext.txt: the rows of words
                               of its vocabulary and of others, and their vectors, by fastText
    no_ngrams.bin, .txt        the same without n-grams
    gensim_model.bin, .txt     a model that gensim's FastText has trained, and the vectors of words by gensim, without rows
    classifier.bin, .ftz       a classifier of fastText, and the same quantized

A line of the texts: the word, the number of its rows, the rows, the values.
"""
import os
import tempfile

import fasttext
import numpy
from gensim.models import FastText, KeyedVectors
from gensim.models.fasttext import save_facebook_model

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'data', 'word_vectors')
os.makedirs(folder, exist_ok=True)
words = ['the', 'of', 'na\u00efve', '\u65e5\u672c', '3.14']
values = [[(r + 1) * (-1 if (r + c) % 2 else 1) / (c + 3) for c in range(7)] for r in range(len(words))]
vectors = KeyedVectors(7)
vectors.add_vectors(words, numpy.array(values, numpy.float32))
vectors.save_word2vec_format(os.path.join(folder, 'gensim.txt'), binary=False, sort_attr='none')
vectors.save_word2vec_format(os.path.join(folder, 'gensim.bin'), binary=True, sort_attr='none')

sentences = ['the sea and the na\u00efve fish', '\u65e5\u672c and \u65e5\u672c\u8a9e', 'a b \U0001d49c \u00fc <x> sea', 'fishes of the seas'] * 3
others = ['lighthouse', 'seaside', '\u65e5\u672c\u4eba', 'z', '<', 'fish>', '\u00e9' * 20]


def write(name, words, rows_of, vector_of):
    with open(os.path.join(folder, name + '.txt'), 'w', encoding='utf-8') as file:
        for word in words:
            rows = [int(r) for r in rows_of(word)]
            values = ['%.9g' % v for v in vector_of(word)]
            file.write(' '.join([word, str(len(rows))] + [str(r) for r in rows] + values) + '\n')


with tempfile.TemporaryDirectory() as temporary:
    text = os.path.join(temporary, 'text')
    with open(text, 'w', encoding='utf-8') as file:
        file.write('\n'.join(sentences) + '\n')
    for name, options, unseen in (('fasttext', dict(minn=1, maxn=4, bucket=50), others), ('no_ngrams', dict(minn=0, maxn=0), [])):
        model = fasttext.train_unsupervised(text, dim=6, epoch=3, minCount=1, thread=1, verbose=0, **options)
        model.save_model(os.path.join(folder, name + '.bin'))
        # without n-grams fastText divides by 0 in get_subwords
        rows_of = (lambda w: model.get_subwords(w)[1]) if unseen else (lambda w: [model.get_word_id(w)])
        write(name, model.words + unseen, rows_of, model.get_word_vector)
    with open(text, 'w') as file:
        for i in range(300):
            file.write('__label__%d word%d and word%d\n' % (i % 2, i, i + 1))
    model = fasttext.train_supervised(text, dim=2, epoch=1, thread=1, verbose=0)
    model.save_model(os.path.join(folder, 'classifier.bin'))
    model.quantize(text, thread=1, verbose=False)
    model.save_model(os.path.join(folder, 'classifier.ftz'))
model = FastText([s.split() for s in sentences], vector_size=6, min_count=1, min_n=3, max_n=6, bucket=50, sg=1, epochs=3,
                 workers=1, seed=1)
save_facebook_model(model, os.path.join(folder, 'gensim_model.bin'))
write('gensim_model', model.wv.index_to_key + others[:3], lambda w: [], lambda w: model.wv[w])
