/* stages: the way of a text through the stages of a tokenizer, and the pre-tokenizers, which split it into words.
 *
 * Follows the pre-tokenizers of Hugging Face's tokenizers. A pattern divides a text into what it finds and what lies
 * between; the behavior says which of these parts are words, or are joined to the part before or behind.
 */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/tokenizer.h"

/* ---- pieces ---- */

static bool is_inside_character(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

tg_place tg_view_place(const tg_view *v, size_t begin, size_t end)
{
    if (v->places) {
        return (tg_place){v->places[begin].begin, v->places[end - 1].end};
    }
    /* a view begins and ends between characters */
    while (is_inside_character(v->text[begin]) && begin > 0) {
        begin--;
    }
    while (end < v->length && is_inside_character(v->text[end])) {
        end++;
    }
    return (tg_place){(uint32_t)(v->at + begin), (uint32_t)(v->at + end)};
}

/* Returns the place of the bytes that are added next, or NULL if there are none, or when memory is exhausted. */
static tg_place *reserve(tg_edit *d, size_t length)
{
    if (length == 0) {
        return NULL;
    }
    d->failed = d->failed || !tg_grow(&d->bytes, &d->byte_capacity, d->count, d->count + length, 1) ||
                !tg_grow(&d->places, &d->place_capacity, d->count, d->count + length, sizeof *d->places);
    return d->failed ? NULL : d->places + d->count;
}

void tg_edit_put(tg_edit *d, const char *bytes, size_t length, tg_place place)
{
    tg_place *places = reserve(d, length);
    if (places) {
        memcpy(d->bytes + d->count, bytes, length);
        for (size_t i = 0; i < length; i++) {
            places[i] = place;
        }
        d->count += length;
    }
}

void tg_edit_copy(tg_edit *d, const tg_view *v, size_t begin, size_t end)
{
    tg_place *places = reserve(d, end - begin);
    if (!places) {
        return;
    }
    memcpy(d->bytes + d->count, v->text + begin, end - begin);
    if (v->places) {
        memcpy(places, v->places + begin, (end - begin) * sizeof *places);
    } else {
        for (size_t i = begin; i < end;) {
            size_t size = tg_character_size(v->text[i]);
            for (size_t k = 0; k < size; k++) {
                *places++ = (tg_place){(uint32_t)(v->at + i), (uint32_t)(v->at + i + size)};
            }
            i += size;
        }
    }
    d->count += end - begin;
}

void tg_edit_prepend(tg_edit *d, const tg_view *v, const char *bytes)
{
    d->count = 0;
    tg_edit_put(d, bytes, strlen(bytes), tg_view_place(v, 0, tg_character_size(v->text[0])));
    tg_edit_copy(d, v, 0, v->length);
}

void tg_edit_free(tg_edit *d)
{
    tg_free(d->bytes);
    tg_free(d->places);
}

/* ---- the walk ---- */

bool tg_pipeline_next(tg_pipeline *w, size_t stage, const tg_view *v)
{
    if (v->length == 0) {
        return true;
    }
    return stage == w->z->step_count ? w->on_word(w->context, v, w->error) : w->z->steps[stage]->kind->run(w, stage, v);
}

bool tg_pipeline_edited(tg_pipeline *w, size_t stage, const tg_edit *edit)
{
    if (edit->failed) {
        return tg_error_set(w->error, TG_ERROR_MEMORY, "%s: out of memory", w->call);
    }
    tg_view v = tg_edit_view(edit);
    return tg_pipeline_next(w, stage, &v);
}

bool tg_pipeline_text(tg_pipeline *w, const char *text, size_t length)
{
    if (length > UINT32_MAX) {
        return tg_error_set(w->error, TG_ERROR_VALUE, "%s: %zu bytes; at most 4294967295 are encoded at a time",
                            w->call, length);
    }
    tg_view v = {text, length, NULL, 0};
    return tg_pipeline_next(w, 0, &v);
}

void tg_pipeline_free(tg_pipeline *w)
{
    tg_matcher_free(&w->matcher);
    for (size_t i = 0; i < sizeof w->edits / sizeof *w->edits; i++) {
        tg_edit_free(&w->edits[i]);
    }
}

/* ---- splits ---- */

/* A part that waits for the next one, because that may be joined to it. */
typedef struct waiting {
    size_t begin, end;
    bool is_match, is_given;
} waiting;

static bool joins(int behavior, const waiting *last, bool is_match)
{
    switch (behavior) {
    case TG_WITH_PREVIOUS: return is_match && !last->is_match;
    case TG_WITH_NEXT: return !is_match && last->is_match;
    case TG_CONTIGUOUS: return is_match == last->is_match;
    default: return false;
    }
}

/* Hands on the part that waits. */
static bool hand_on(tg_pipeline *w, size_t stage, const tg_view *v, const waiting *part)
{
    int behavior = w->z->steps[stage]->behavior;
    bool is_removed = behavior == TG_REMOVED ? part->is_match : behavior == TG_WORDS && !part->is_match;
    tg_view piece = tg_view_part(v, part->begin, part->end);
    return !part->is_given || is_removed || tg_pipeline_next(w, stage + 1, &piece);
}

static bool add_part(tg_pipeline *w, size_t stage, const tg_view *v, waiting *last, waiting part)
{
    if (last->is_given && joins(w->z->steps[stage]->behavior, last, part.is_match)) {
        *last = (waiting){last->begin, part.end, part.is_match, true};
        return true;
    }
    bool is_good = hand_on(w, stage, v, last);
    *last = part;
    return is_good;
}

/* Splits a text by the stage's pattern. */
static bool run_split(tg_pipeline *w, size_t stage, const tg_view *v)
{
    const tg_stage *s = w->z->steps[stage];
    tg_matches matches = {s->pattern, &w->matcher, v->text, v->length, 0, false};
    size_t covered = 0, begin, end;
    waiting last = {0, 0, false, false};
    int found = 1;
    bool is_good = true;
    while (is_good && (found = tg_matches_next(&matches, &begin, &end, w->error)) > 0) {
        if (covered < begin) {
            is_good = add_part(w, stage, v, &last, (waiting){covered, begin, s->is_inverted, true});
        }
        is_good = is_good && add_part(w, stage, v, &last, (waiting){begin, end, !s->is_inverted, true});
        covered = end;
    }
    if (is_good && covered < v->length) {
        is_good = add_part(w, stage, v, &last, (waiting){covered, v->length, s->is_inverted, true});
    }
    return is_good && found >= 0 && hand_on(w, stage, v, &last);
}

static bool run_byte_level(tg_pipeline *w, size_t stage, const tg_view *v)
{
    const tg_stage *s = w->z->steps[stage];
    tg_edit *d = &w->edits[stage];
    tg_view longer = *v;
    if (s->adds_prefix_space && v->text[0] != ' ') {
        tg_edit_prepend(d, v, " ");
        longer = tg_edit_view(d);
    }
    if (d->failed) {
        return tg_error_set(w->error, TG_ERROR_MEMORY, "%s: out of memory", w->call);
    }
    return s->uses_regex ? run_split(w, stage, &longer) : tg_pipeline_next(w, stage + 1, &longer);
}

static bool run_metaspace(tg_pipeline *w, size_t stage, const tg_view *v)
{
    const tg_stage *s = w->z->steps[stage];
    size_t size = strlen(s->content);
    tg_edit *d = &w->edits[stage];
    bool begins = v->text[0] == ' ' || (v->length >= size && memcmp(v->text, s->content, size) == 0);
    tg_place first = tg_view_place(v, 0, tg_character_size(v->text[0]));
    d->count = 0;
    if (!begins && (s->scheme == TG_ALWAYS || (s->scheme == TG_FIRST && first.begin == 0))) {
        tg_edit_put(d, s->content, size, first);
    }
    for (size_t i = 0, end; i < v->length; i = end) {
        const char *space = memchr(v->text + i, ' ', v->length - i);
        end = space ? (size_t)(space - v->text) : v->length;
        tg_edit_copy(d, v, i, end);
        if (space) {
            tg_edit_put(d, s->content, size, tg_view_place(v, end, end + 1));
            end++;
        }
    }
    if (d->failed || !s->splits) {
        return tg_pipeline_edited(w, stage + 1, d);
    }
    tg_view edited = tg_edit_view(d);
    return run_split(w, stage, &edited);
}

#define PUNCTUATION "!-/:-@\\[-`{-~\\p{P}"

const tg_stage_kind tg_pre_tokenizer_kinds[] = {
    {"ByteLevel", "add_prefix_space ", "trim_offsets use_regex ", run_byte_level, tg_gpt2_pattern, TG_ISOLATED, NULL},
    {"Split", "pattern behavior invert ", "", run_split, NULL, 0, NULL},
    {"Digits", "individual_digits ", "", run_split, "\\p{N}", 0, NULL},
    {"Metaspace", "replacement ", "prepend_scheme add_prefix_space split ", run_metaspace, NULL, TG_WITH_NEXT, NULL},
    {"BertPreTokenizer", "", "", run_split, "[" PUNCTUATION "]|[^\\s" PUNCTUATION "]+", TG_WORDS, NULL},
    {"Whitespace", "", "", run_split, "[\\w\\x{200c}\\x{200d}]+|[^\\w\\x{200c}\\x{200d}\\s]+", TG_WORDS, NULL},
    {"WhitespaceSplit", "", "", run_split, "\\s", TG_REMOVED, NULL},
    {"Punctuation", "behavior ", "", run_split, "[" PUNCTUATION "]", 0, NULL},
    {"Sequence", "pretokenizers ", "", NULL, NULL, 0, NULL},
    {NULL, NULL, NULL, NULL, NULL, 0, NULL},
};

bool tg_stages_have_bytes(const tg_stages *pre_tokenizers)
{
    return pre_tokenizers->count > 0 && pre_tokenizers->stages[pre_tokenizers->count - 1].kind->run == run_byte_level;
}

/* ---- lists ---- */

bool tg_stages_prepare(tg_stages *stages, tg_error *error)
{
    for (size_t i = 0; i < stages->count; i++) {
        tg_stage *s = &stages->stages[i];
        bool is_metaspace = s->kind->run == run_metaspace;
        const char *text = s->kind->pattern ? s->kind->pattern : is_metaspace ? s->content : s->text;
        if (text && !(s->pattern = tg_pattern_new(text, s->is_literal || is_metaspace, error))) {
            return false;
        }
        if (i + 1 < stages->count && s->kind->run == run_byte_level) {
            return tg_error_set(error, TG_ERROR_FORMAT, "a ByteLevel must be the last pre_tokenizer");
        }
    }
    return true;
}

void tg_stages_free(tg_stages *stages)
{
    for (size_t i = 0; i < stages->count; i++) {
        tg_free(stages->stages[i].text);
        tg_free(stages->stages[i].content);
        tg_free(stages->stages[i].ids);
        tg_pattern_free(stages->stages[i].pattern);
    }
    stages->count = 0;
}

/* ---- where a text may be cut ---- */

tg_cuts tg_tokenizer_cuts(const tg_tokenizer *z)
{
    const tg_stages *pre = &z->lists[TG_PRE_TOKENIZERS], *normalizers = &z->lists[TG_NORMALIZERS];
    tg_cuts cuts = pre->count > 0 ? TG_CUT_GPT2 : TG_CUT_NOWHERE;
    int patterns = 0;
    for (size_t i = 0; i < pre->count; i++) {
        const tg_stage *s = &pre->stages[i];
        bool is_byte_level = s->kind->run == run_byte_level;
        bool is_split = s->kind->run == run_split && s->pattern && s->behavior == TG_ISOLATED && !s->is_inverted;
        bool cuts_alone = is_byte_level ? !s->adds_prefix_space : is_split || strcmp(s->kind->name, "Digits") == 0;
        if (!cuts_alone) {
            return TG_CUT_NOWHERE;
        }
        if (!is_byte_level || s->uses_regex) {
            patterns++;
            cuts = tg_pattern_cuts(s->pattern) < cuts ? tg_pattern_cuts(s->pattern) : cuts;
        }
    }
    for (size_t i = 0; i < normalizers->count; i++) {
        /* no letter of ASCII is composed with the character before it */
        cuts = strcmp(normalizers->stages[i].kind->name, "NFC") != 0 ? TG_CUT_NOWHERE : cuts;
    }
    bool is_one = patterns == 1 && normalizers->count == 0;
    return cuts == TG_CUT_GPT2 && !is_one ? TG_CUT_LINES : patterns > 0 ? cuts : TG_CUT_NOWHERE;
}

/* Returns the stage with the only pattern of a tokenizer that may be cut as GPT-2's. */
static const tg_pattern *only_pattern(const tg_tokenizer *z)
{
    const tg_stages *pre = &z->lists[TG_PRE_TOKENIZERS];
    const tg_stage *first = &pre->stages[0];
    return first->pattern;
}

bool tg_pipeline_can_cut(tg_pipeline *w, const char *text, size_t length, size_t at)
{
    tg_cuts cuts = tg_tokenizer_cuts(w->z);
    if (cuts == TG_CUT_NOWHERE) {
        return false;
    }
    if (cuts == TG_CUT_GPT2) {
        return tg_pattern_can_cut(only_pattern(w->z), &w->matcher, text, length, at);
    }
    bool is_letter = (text[at] >= 'a' && text[at] <= 'z') || (text[at] >= 'A' && text[at] <= 'Z');
    return at >= 2 && is_letter && text[at - 1] == '\n' &&
           !tg_is_white(text, at - 1, tg_character_before(text, at - 1));
}
