/* normalize: the normalizers, which write a text in other characters. Those of Unicode need utf8proc.
 *
 * Follows the normalizers of Hugging Face's tokenizers. Each character keeps the place of the one that it stands for:
 * the parts of a character that was decomposed have its place, and a composed one has that of its first part.
 */
#include <stdlib.h>
#include <string.h>

#include <tapegrad/extend.h>
#include "text/tokenizer.h"

#ifdef TG_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

/* ---- edits without Unicode ---- */

/* Each match becomes the content, at the place of the last character of the match. */
static bool run_replace(tg_pipeline *w, size_t stage, const tg_view *v)
{
    const tg_stage *s = w->z->steps[stage];
    tg_edit *d = &w->edits[stage];
    tg_matches matches = {s->pattern, &w->matcher, v->text, v->length, 0, false};
    size_t covered = 0, begin, end;
    int found;
    d->count = 0;
    while ((found = tg_matches_next(&matches, &begin, &end, w->error)) > 0) {
        size_t before = end > 0 ? tg_character_before(v->text, end) : 0;
        tg_edit_copy(d, v, covered, begin);
        tg_edit_put(d, s->content, strlen(s->content), end > 0 ? tg_view_place(v, before, end) : (tg_place){0, 0});
        covered = end;
    }
    tg_edit_copy(d, v, covered, v->length);
    return found == 0 && tg_pipeline_edited(w, stage + 1, d);
}

static bool run_prepend(tg_pipeline *w, size_t stage, const tg_view *v)
{
    tg_edit_prepend(&w->edits[stage], v, w->z->steps[stage]->content);
    return tg_pipeline_edited(w, stage + 1, &w->edits[stage]);
}

#ifdef TG_HAVE_UTF8PROC

/* ---- characters ---- */

static utf8proc_int32_t character_at(const tg_view *v, size_t at)
{
    utf8proc_int32_t c = -1;
    utf8proc_iterate((const utf8proc_uint8_t *)v->text + at, (utf8proc_ssize_t)(v->length - at), &c);
    return c;
}

static void put_character(tg_edit *d, utf8proc_int32_t c, tg_place place)
{
    utf8proc_uint8_t bytes[4];
    tg_edit_put(d, (const char *)bytes, (size_t)utf8proc_encode_char(c, bytes), place);
}

/* Returns whether a text is what it would become, because it has no byte from `first` on. */
static bool is_below(const tg_view *v, unsigned char first)
{
    size_t i = 0;
    while (i < v->length && (unsigned char)v->text[i] < first) {
        i++;
    }
    return i == v->length;
}

/* ---- NFC, NFD, NFKC, NFKD (Unicode Standard Annex 15) ---- */

/* A character of a text that is being normalized. */
typedef struct part {
    utf8proc_int32_t c;
    int32_t change; /* 1: added to the characters of the source; -n: stands for n more of them than one */
    uint32_t index;
    uint8_t order; /* its combining class */
} part;

/* The parts of most segments. A character has at most 18. */
#define FEW_PARTS 64
#define MOST_PARTS_OF_ONE 20

static bool is_mark(const utf8proc_property_t *p)
{
    return p->category == UTF8PROC_CATEGORY_MN || p->category == UTF8PROC_CATEGORY_MC ||
           p->category == UTF8PROC_CATEGORY_ME;
}

/* Returns whether no character is composed with the one before it. The letters of Hangul are, and the marks of
 * half-width Katakana in NFKC. */
static bool begins_segment(utf8proc_int32_t c, const utf8proc_property_t *p)
{
    return p->combining_class == 0 && !is_mark(p) && !(c >= 0x1100 && c < 0x1200) && !(c >= 0xff9e && c <= 0xffdc);
}

static bool has_parts(utf8proc_int32_t c, const utf8proc_property_t *p, int options)
{
    bool is_syllable = c >= 0xac00 && c < 0xd7a4;
    return p->decomp_seqindex != UINT16_MAX || (is_syllable && !(options & UTF8PROC_COMPOSE));
}

static int compare_order(const void *a, const void *b)
{
    const part *x = a, *y = b;
    return x->order != y->order ? x->order - y->order : (x->index > y->index) - (x->index < y->index);
}

/* Puts the characters between starters into canonical order. */
static void sort_parts(part *parts, size_t count)
{
    for (size_t i = 0, end; i < count; i = end + 1) {
        for (end = i; end < count && parts[end].order > 0; end++) {
        }
        if (end > i + 1) {
            qsort(parts + i, end - i, sizeof *parts, compare_order);
        }
    }
}

/* Composes two characters; 0 if they are not composed. */
static utf8proc_int32_t compose(utf8proc_int32_t a, utf8proc_int32_t b)
{
    utf8proc_int32_t two[3] = {a, b, 0};
    return utf8proc_normalize_utf32(two, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) == 1 ? two[0] : 0;
}

/* Composes parts in canonical order. Returns their number. */
static size_t compose_parts(part *parts, size_t count)
{
    size_t starter = SIZE_MAX, kept = 0;
    int last = 0;
    for (size_t i = 0; i < count; i++) {
        part p = parts[i];
        bool is_near = starter != SIZE_MAX && (starter + 1 == kept || last < p.order);
        utf8proc_int32_t composed = is_near ? compose(parts[starter].c, p.c) : 0;
        if (composed) {
            parts[starter].c = composed;
            parts[starter].change += p.change - 1;
            continue;
        }
        starter = p.order == 0 ? kept : starter;
        last = p.order;
        parts[kept++] = p;
    }
    return kept;
}

/* Adds parts. A part stands for the next character of the source, or is added to the one before. */
static void put_parts(const tg_view *v, size_t begin, const part *parts, size_t count, tg_edit *d)
{
    tg_place place = {0, 0};
    for (size_t i = 0; i < count; i++) {
        for (int32_t n = parts[i].change; n <= 0; n++) {
            size_t size = tg_character_size(v->text[begin]);
            place = n == parts[i].change ? tg_view_place(v, begin, begin + size) : place;
            begin += size;
        }
        put_character(d, parts[i].c, place);
        if (parts[i].change < 0) {
            size_t before = tg_character_before(v->text, begin);
            place = tg_view_place(v, before, begin);
        }
    }
}

/* Normalizes the characters [begin,end), with which no other character is composed. */
static void normalize_segment(const tg_view *v, size_t begin, size_t end, int options, tg_edit *d)
{
    part few[FEW_PARTS], *parts = few;
    size_t count = 0, most = (end - begin) * MOST_PARTS_OF_ONE;
    if (most > FEW_PARTS && !(parts = tg_alloc(most, sizeof *parts))) {
        d->failed = true;
        return;
    }
    for (size_t i = begin; i < end; i += tg_character_size(v->text[i])) {
        utf8proc_int32_t all[MOST_PARTS_OF_ONE];
        int last = 0;
        utf8proc_ssize_t n =
            utf8proc_decompose_char(character_at(v, i), all, MOST_PARTS_OF_ONE,
                                    UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (options & UTF8PROC_COMPAT), &last);
        for (utf8proc_ssize_t k = 0; k < n && k < MOST_PARTS_OF_ONE; k++, count++) {
            uint8_t order = (uint8_t)utf8proc_get_property(all[k])->combining_class;
            parts[count] = (part){all[k], k > 0, (uint32_t)count, order};
        }
    }
    sort_parts(parts, count);
    put_parts(v, begin, parts, options & UTF8PROC_COMPOSE ? compose_parts(parts, count) : count, d);
    if (parts != few) {
        tg_free(parts);
    }
}

static void normalize(const tg_view *v, int options, tg_edit *d)
{
    size_t copied = 0;
    for (size_t i = 0, end; i < v->length; i = end) {
        utf8proc_int32_t c = character_at(v, i);
        const utf8proc_property_t *p = utf8proc_get_property(c);
        bool is_plain = begins_segment(c, p) && !has_parts(c, p, options);
        for (end = i + tg_character_size(v->text[i]); end < v->length; end += tg_character_size(v->text[end])) {
            utf8proc_int32_t next = (unsigned char)v->text[end] < 0x80 ? 'a' : character_at(v, end);
            if (begins_segment(next, utf8proc_get_property(next))) {
                break;
            }
            is_plain = false;
        }
        if (!is_plain) {
            tg_edit_copy(d, v, copied, i);
            normalize_segment(v, i, end, options, d);
            copied = end;
        }
    }
    tg_edit_copy(d, v, copied, v->length);
}

/* The options are in the row of the kind. NFC changes no text of characters below U+0300, and no form one of ASCII. */
static bool run_normalize(tg_pipeline *w, size_t stage, const tg_view *v)
{
    int options = w->z->steps[stage]->kind->option;
    if (is_below(v, options == UTF8PROC_COMPOSE ? 0xcc : 0x80)) {
        return tg_pipeline_next(w, stage + 1, v);
    }
    w->edits[stage].count = 0;
    normalize(v, options, &w->edits[stage]);
    return tg_pipeline_edited(w, stage + 1, &w->edits[stage]);
}

/* ---- one character after the other ---- */

static void lower(const tg_view *v, tg_edit *d)
{
    for (size_t i = 0, size; i < v->length; i += size) {
        size = tg_character_size(v->text[i]);
        tg_place place = tg_view_place(v, i, i + size);
        utf8proc_int32_t c = character_at(v, i);
        if (c == 0x130) { /* the only letter that has two small ones */
            tg_edit_put(d, "i\xcc\x87", 3, place);
        } else {
            put_character(d, utf8proc_tolower(c), place);
        }
    }
}

/* Copies the text without marks; `spacing` says whether also without those that take space. */
static void strip_marks(const tg_view *v, bool spacing, tg_edit *d)
{
    for (size_t i = 0, size; i < v->length; i += size) {
        size = tg_character_size(v->text[i]);
        const utf8proc_property_t *p = utf8proc_get_property(character_at(v, i));
        if (spacing ? !is_mark(p) : p->category != UTF8PROC_CATEGORY_MN) {
            tg_edit_copy(d, v, i, i + size);
        }
    }
}

static bool run_lowercase(tg_pipeline *w, size_t stage, const tg_view *v)
{
    w->edits[stage].count = 0;
    lower(v, &w->edits[stage]);
    return tg_pipeline_edited(w, stage + 1, &w->edits[stage]);
}

static bool run_strip_accents(tg_pipeline *w, size_t stage, const tg_view *v)
{
    w->edits[stage].count = 0;
    strip_marks(v, true, &w->edits[stage]);
    return tg_pipeline_edited(w, stage + 1, &w->edits[stage]);
}

/* ---- BERT (google-research/bert) ---- */

static bool is_chinese(utf8proc_int32_t c)
{
    static const utf8proc_int32_t ranges[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                                 {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                                 {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    bool is_inside = false;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        is_inside |= c >= ranges[i][0] && c <= ranges[i][1];
    }
    return is_inside;
}

/* Removes characters that control, makes white space spaces, and puts spaces around Chinese characters. */
static void clean(const tg_stage *s, const tg_view *v, tg_edit *d)
{
    for (size_t i = 0, size; i < v->length; i += size) {
        size = tg_character_size(v->text[i]);
        utf8proc_int32_t c = character_at(v, i);
        tg_place place = tg_view_place(v, i, i + size);
        if (s->cleans && tg_is_white(v->text, v->length, i) && c != 0x0b && c != 0x0c && c != 0x85) {
            tg_edit_put(d, " ", 1, place);
            continue;
        }
        utf8proc_category_t category = utf8proc_get_property(c)->category;
        bool is_other =
            category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
        if (s->cleans && (is_other || c == 0xfffd)) {
            continue;
        }
        bool is_separate = s->separates_chinese && is_chinese(c);
        tg_edit_put(d, " ", is_separate, place);
        tg_edit_put(d, v->text + i, size, place);
        tg_edit_put(d, " ", is_separate, place);
    }
}

static bool run_bert(tg_pipeline *w, size_t stage, const tg_view *v)
{
    const tg_stage *s = w->z->steps[stage];
    tg_edit *d = &w->edits[stage], cleaned = {0}, decomposed = {0}, stripped = {0};
    clean(s, v, &cleaned);
    tg_view now = tg_edit_view(&cleaned);
    if ((s->has_strips_accents ? s->strips_accents : s->lowers) && !is_below(&now, 0x80)) {
        normalize(&now, 0, &decomposed);
        now = tg_edit_view(&decomposed);
        strip_marks(&now, false, &stripped);
        now = tg_edit_view(&stripped);
    }
    d->count = 0;
    if (s->lowers) {
        lower(&now, d);
    } else {
        tg_edit_copy(d, &now, 0, now.length);
    }
    d->failed |= cleaned.failed || decomposed.failed || stripped.failed;
    tg_edit_free(&cleaned);
    tg_edit_free(&decomposed);
    tg_edit_free(&stripped);
    return tg_pipeline_edited(w, stage + 1, d);
}

#endif

const tg_stage_kind tg_normalizer_kinds[] = {
    {"Replace", "pattern content ", "", run_replace, NULL, 0, NULL},
    {"Prepend", "prepend ", "", run_prepend, NULL, 0, NULL},
#ifdef TG_HAVE_UTF8PROC
    {"NFC", "", "", run_normalize, NULL, UTF8PROC_COMPOSE, NULL},
    {"NFD", "", "", run_normalize, NULL, 0, NULL},
    {"NFKC", "", "", run_normalize, NULL, UTF8PROC_COMPOSE | UTF8PROC_COMPAT, NULL},
    {"NFKD", "", "", run_normalize, NULL, UTF8PROC_COMPAT, NULL},
    {"Lowercase", "", "", run_lowercase, NULL, 0, NULL},
    {"StripAccents", "", "", run_strip_accents, NULL, 0, NULL},
    {"BertNormalizer", "clean_text handle_chinese_chars lowercase ", "strip_accents ", run_bert, NULL, 0, NULL},
#endif
    {"Sequence", "normalizers ", "", NULL, NULL, 0, NULL},
    {NULL, NULL, NULL, NULL, NULL, 0, NULL},
};
