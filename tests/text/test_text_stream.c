/* Streams of text: pieces end with whole characters, and are together the decoded text, whatever the ids. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include <tapegrad/tokenizer.h>

static tg_error error;
static tg_tokenizer *bpe;

/* One merge, of the first byte of some characters with the byte before it: an id may end inside a character. */
static const char training[] = "aé aé aé aé a b";

static int set_up(void **state)
{
    (void)state;
    error = (tg_error)TG_NO_ERROR;
    bpe = tg_tokenizer_train(training, sizeof training - 1, 260, &error);
    return bpe ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tokenizer_free(bpe);
    return 0;
}

/* Returns the id of a single byte. */
static int32_t id_of(unsigned char byte)
{
    for (int32_t id = 0;; id++) {
        size_t length;
        const char *bytes = tg_tokenizer_bytes(bpe, id, &length);
        assert_non_null(bytes);
        if (length == 1 && (unsigned char)*bytes == byte) {
            return id;
        }
    }
}

static void assert_piece(const char *piece, const size_t *length, const char *expected)
{
    assert_non_null(piece);
    assert_int_equal(*length, strlen(expected));
    assert_string_equal(piece, expected);
}

/* Each byte alone: the text of a character comes with its last byte. */
static void test_characters_are_whole(void **state)
{
    (void)state;
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
    static const char *const expected[] = {"a", "", "é", "", "", "€", "", "", "", "😀", "z"};
    tg_text_stream *stream = tg_text_stream_new(bpe, &error);
    size_t length;
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < sizeof text - 1; i++) {
            const char *piece = tg_text_stream_add(stream, id_of((unsigned char)text[i]), &length, &error);
            assert_piece(piece, &length, expected[i]);
        }
        assert_piece(tg_text_stream_end(stream, &length, &error), &length, "");
    }
    /* U+FFFD may be that of a decoder, so it waits for the next id; a text ends with what is there */
    assert_piece(tg_text_stream_add(stream, id_of(0xef), &length, &error), &length, "");
    assert_piece(tg_text_stream_add(stream, id_of(0xbf), &length, &error), &length, "");
    assert_piece(tg_text_stream_add(stream, id_of(0xbd), &length, &error), &length, "");
    assert_piece(tg_text_stream_add(stream, id_of('b'), &length, &error), &length,
                 "\xef\xbf\xbd"
                 "b");
    assert_piece(tg_text_stream_add(stream, id_of(0xe2), &length, &error), &length, "");
    assert_piece(tg_text_stream_end(stream, &length, &error), &length, "\xe2");
    assert_string_equal(tg_text_stream_end(stream, NULL, &error), "");
    tg_text_stream_free(stream);
}

/* Returns whether a text ends with a character that more bytes could complete, by the table of RFC 3629 alone. */
static bool ends_inside(const unsigned char *text, size_t length)
{
    return (length >= 1 && text[length - 1] >= 0xc2 && text[length - 1] <= 0xf4) ||
           (length >= 2 && text[length - 2] >= 0xe0 && text[length - 2] <= 0xf4 && (text[length - 1] & 0xc0) == 0x80) ||
           (length >= 3 && text[length - 3] >= 0xf0 && text[length - 3] <= 0xf4 && (text[length - 2] & 0xc0) == 0x80 &&
            (text[length - 1] & 0xc0) == 0x80);
}

/* Random ids, most of them broken UTF-8, NULs among them: nothing is lost, and no piece ends inside a character, unless
 * a long row of ids has not completed it. */
static void test_pieces_are_the_text(void **state)
{
    (void)state;
    enum { TEXTS = 2000, LONGEST = 40 };
    tg_text_stream *stream = tg_text_stream_new(bpe, &error);
    tg_rng *rng = tg_rng_new(7);
    int held = 0;
    for (int i = 0; i < TEXTS; i++) {
        int32_t ids[LONGEST];
        char pieces[16 * LONGEST];
        size_t ends[LONGEST], length, total = 0;
        int count = i % LONGEST;
        for (int k = 0; k < count; k++) {
            ids[k] = (int32_t)tg_rng_randint(rng, 0, tg_tokenizer_vocabulary(bpe), &error);
            const char *piece = tg_text_stream_add(stream, ids[k], &length, &error);
            assert_non_null(piece);
            assert_int_equal(piece[length], '\0');
            memcpy(pieces + total, piece, length);
            ends[k] = total += length;
            held += length == 0;
        }
        const char *rest = tg_text_stream_end(stream, &length, &error);
        memcpy(pieces + total, rest, length);
        total += length;
        size_t expected;
        char *text = tg_tokenizer_decode(bpe, ids, count, &expected, &error);
        assert_int_equal(total, expected);
        assert_memory_equal(pieces, text, expected);
        for (int k = 0; k < count; k++) {
            bool continues = ends[k] < total && (text[ends[k]] & 0xc0) == 0x80;
            assert_false(continues && ends_inside((const unsigned char *)text, ends[k]));
        }
        tg_text_free(text);
    }
    assert_true(held > 100);
    /* a row of first bytes completes nothing, but is not kept forever */
    size_t total = 0, length;
    for (int i = 0; i < 1000; i++) {
        assert_non_null(tg_text_stream_add(stream, id_of(0xc3), &length, &error));
        total += length;
    }
    assert_true(total > 900);
    tg_rng_free(rng);
    tg_text_stream_free(stream);
}

/* Adds an id, at the second try if no memory is left for the first one. */
static const char *add_surely(tg_text_stream *stream, int32_t id, bool *has_failed)
{
    const char *piece = tg_text_stream_add(stream, id, NULL, &error);
    if (!piece) {
        assert_int_equal(error.code, TG_ERROR_MEMORY);
        *has_failed = true;
        piece = tg_text_stream_add(stream, id, NULL, &error);
    }
    assert_non_null(piece);
    return piece;
}

static void test_refuses(void **state)
{
    (void)state;
    size_t length = 7;
    assert_null(tg_text_stream_new(NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "text_stream_new: the tokenizer is NULL");
    assert_null(tg_text_stream_add(NULL, 1, &length, &error));
    assert_error(&error, TG_ERROR_STATE, "text_stream_add: the stream is NULL");
    assert_int_equal(length, 0);
    assert_null(tg_text_stream_end(NULL, &length, &error));
    assert_error(&error, TG_ERROR_STATE, "text_stream_end: the stream is NULL");
    tg_text_stream_free(NULL);
    /* an id that does not exist, or no memory, changes nothing */
    tg_text_stream *stream = tg_text_stream_new(bpe, &error);
    char text[100];
    snprintf(text, sizeof text, "text_stream_add: id %d is outside [0,%d)", tg_tokenizer_vocabulary(bpe),
             tg_tokenizer_vocabulary(bpe));
    assert_piece(tg_text_stream_add(stream, id_of(0xc3), &length, &error), &length, "");
    assert_null(tg_text_stream_add(stream, tg_tokenizer_vocabulary(bpe), &length, &error));
    assert_error(&error, TG_ERROR_RANGE, text);
    assert_null(tg_text_stream_add(stream, -1, &length, &error));
    assert_error(&error, TG_ERROR_RANGE, "text_stream_add: id -1 is outside");
    assert_piece(tg_text_stream_add(stream, id_of(0xa9), &length, &error), &length, "é");
    tg_text_stream_free(stream);
    bool has_failed = true;
    for (size_t k = 1; has_failed; k++) {
        counting_allocator counting;
        allocator_install(&counting);
        allocator_arm(&counting, k, false);
        has_failed = false;
        tg_text_stream *made = tg_text_stream_new(bpe, &error);
        if (made) {
            assert_string_equal(add_surely(made, id_of(0xc3), &has_failed), "");
            assert_string_equal(add_surely(made, id_of(0xa9), &has_failed), "é");
        }
        has_failed = has_failed || !made;
        tg_text_stream_free(made);
        assert_int_equal(counting.live, 0);
        allocator_restore();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_characters_are_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pieces_are_the_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
