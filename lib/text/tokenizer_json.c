/* tokenizer_json: the members of tokenizer.json (huggingface/tokenizers, serialization of Tokenizer and BPE).
 *
 *   version           "1.0"
 *   truncation        null            padding          null            normalizer   null
 *   added_tokens      [{"id", "content", "special", "normalized", "single_word": false, "lstrip": false,
 *                     "rstrip": false}, ...]
 *   pre_tokenizer     ByteLevel, or a Sequence of a Split by GPT-2's pattern and a ByteLevel
 *   post_processor    null or ByteLevel, which changes no ids           decoder      null or ByteLevel
 *   model             {"type": "BPE", "vocab": {"token": id}, "merges": ["left right"] or [["left", "right"]], ...}
 *
 * An object is read by a table of its members. A member that is unknown, or given twice, is an error.
 */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/vocabulary_json.h"

/* ---- objects by tables ---- */

typedef struct member {
    const char *name;
    /* reads the value; `name` is where an error is reported */
    bool (*read)(tg_json *j, const tg_json_text *name, void *out);
    bool is_required;
} member;

/* Reads an object whose name in messages is `what`. */
static bool read_object(tg_json *j, const char *what, const member *members, size_t member_count, void *out)
{
    size_t count = 0, k;
    uint32_t given = 0;
    tg_json_text name;
    tg_json_next(j);
    size_t start = j->at;
    if (!tg_json_begin(j, '{')) {
        return false;
    }
    while (tg_json_key(j, &count, &name)) {
        for (k = 0; k < member_count && strcmp(members[k].name, name.text) != 0; k++) {
        }
        if (k == member_count) {
            return tg_json_fail(j, name.at, "%s has the unknown member \"%.*s\"", what, TG_CUT(name.text, 60));
        }
        if (given >> k & 1) {
            return tg_json_fail(j, name.at, "%s has \"%s\" twice", what, members[k].name);
        }
        given |= UINT32_C(1) << k;
        if (!members[k].read(j, &name, out)) {
            return false;
        }
    }
    for (k = 0; !j->failed && k < member_count; k++) {
        if (members[k].is_required && !(given >> k & 1)) {
            return tg_json_fail(j, start, "%s has no \"%s\"", what, members[k].name);
        }
    }
    return !j->failed;
}

#define READ_OBJECT(j, what, members, out) read_object(j, what, members, sizeof(members) / sizeof *(members), out)

/* ---- values that are checked and not kept ---- */

static bool refuse(tg_json *j, const tg_json_text *name, const char *allowed)
{
    return tg_json_fail(j, name->at, "\"%s\" must be %s; anything else gives other ids", name->text, allowed);
}

static bool must_be_null(tg_json *j, const tg_json_text *name, void *out)
{
    (void)out;
    return tg_json_word(j, "null") || refuse(j, name, "null");
}

static bool must_be_false(tg_json *j, const tg_json_text *name, void *out)
{
    (void)out;
    return tg_json_word(j, "false") || refuse(j, name, "false");
}

static bool null_or_false(tg_json *j, const tg_json_text *name, void *out)
{
    (void)out;
    return tg_json_word(j, "null") || tg_json_word(j, "false") || refuse(j, name, "null or false");
}

static bool any_bool(tg_json *j, const tg_json_text *name, void *out)
{
    (void)out;
    return tg_json_word(j, "false") || tg_json_word(j, "true") ||
           tg_json_fail(j, name->at, "\"%s\" must be true or false", name->text);
}

static bool null_or_bool(tg_json *j, const tg_json_text *name, void *out)
{
    return tg_json_word(j, "null") || any_bool(j, name, out);
}

/* Returns whether the next value is this string, and takes it. */
static bool is_string(tg_json *j, const char *text)
{
    tg_json_text string;
    return tg_json_next(j) == '"' && tg_json_string(j, &string) && strcmp(string.text, text) == 0;
}

static bool must_be_empty(tg_json *j, const tg_json_text *name, void *out)
{
    (void)out;
    return tg_json_word(j, "null") || is_string(j, "") || (!j->failed && refuse(j, name, "null or \"\""));
}

/* The token for unknown characters has no use, because all bytes are tokens. */
static bool any_string(tg_json *j, const tg_json_text *name, void *out)
{
    (void)out;
    (void)name;
    tg_json_text string;
    return tg_json_word(j, "null") || tg_json_string(j, &string);
}

static bool must_be_version(tg_json *j, const tg_json_text *name, void *out)
{
    (void)out;
    return is_string(j, "1.0") || (!j->failed && tg_json_fail(j, name->at, "\"version\" must be \"1.0\""));
}

/* ---- pre_tokenizer, post_processor and decoder ---- */

/* One component: its type, and the options that can give other ids. */
typedef struct component {
    enum { OTHER, BYTE_LEVEL, SPLIT, SEQUENCE } type;
    bool adds_prefix_space, uses_regex, is_gpt2_split, is_inverted, is_isolated;
    bool is_part, has_gpt2s_parts; /* of a sequence: a Split, and a ByteLevel, which splits words no further */
} component;

/* The pattern of openai/gpt-2's encoder.py, and that of tiktoken, which splits equally. */
static const char *const patterns[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s",
};

static bool read_type(tg_json *j, const tg_json_text *name, void *out)
{
    component *c = out;
    tg_json_text type;
    (void)name;
    if (!tg_json_string(j, &type)) {
        return false;
    }
    c->type = strcmp(type.text, "ByteLevel") == 0  ? BYTE_LEVEL
              : strcmp(type.text, "Split") == 0    ? SPLIT
              : strcmp(type.text, "Sequence") == 0 ? SEQUENCE
                                                   : OTHER;
    return c->type != OTHER ||
           tg_json_fail(j, type.at, "the type \"%.*s\" is not supported; only \"ByteLevel\" and GPT-2's \"Split\" are",
                        TG_CUT(type.text, 60));
}

static bool read_prefix_space(tg_json *j, const tg_json_text *name, void *out)
{
    ((component *)out)->adds_prefix_space = tg_json_word(j, "true");
    return ((component *)out)->adds_prefix_space || any_bool(j, name, out);
}

static bool read_use_regex(tg_json *j, const tg_json_text *name, void *out)
{
    ((component *)out)->uses_regex = !tg_json_word(j, "false");
    return !((component *)out)->uses_regex || any_bool(j, name, out);
}

static bool read_invert(tg_json *j, const tg_json_text *name, void *out)
{
    ((component *)out)->is_inverted = tg_json_word(j, "true");
    return ((component *)out)->is_inverted || any_bool(j, name, out);
}

static bool read_behavior(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    ((component *)out)->is_isolated = is_string(j, "Isolated");
    return !j->failed;
}

static bool read_regex(tg_json *j, const tg_json_text *name, void *out)
{
    tg_json_text pattern;
    (void)name;
    if (!tg_json_string(j, &pattern)) {
        return false;
    }
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        ((component *)out)->is_gpt2_split |= strcmp(pattern.text, patterns[i]) == 0;
    }
    return true;
}

static bool read_pattern(tg_json *j, const tg_json_text *name, void *out)
{
    static const member members[] = {{"Regex", read_regex, true}};
    (void)name;
    return READ_OBJECT(j, "pattern", members, out);
}

static bool read_component(tg_json *j, const char *what, component *c);

static bool read_parts(tg_json *j, const tg_json_text *name, void *out)
{
    component *sequence = out;
    size_t count = 0;
    bool is_gpt2s = !sequence->is_part;
    if (sequence->is_part) {
        return tg_json_fail(j, name->at, "a part of a Sequence has parts of its own");
    }
    if (!tg_json_begin(j, '[')) {
        return false;
    }
    while (tg_json_more(j, ']', &count)) {
        component part = {.is_part = true};
        if (!read_component(j, "a part of the Sequence", &part)) {
            return false;
        }
        is_gpt2s &= count == 1   ? part.type == SPLIT && part.is_gpt2_split && part.is_isolated && !part.is_inverted
                    : count == 2 ? part.type == BYTE_LEVEL && !part.adds_prefix_space
                                 : false;
    }
    sequence->has_gpt2s_parts = is_gpt2s && count == 2;
    return !j->failed &&
           (sequence->has_gpt2s_parts || refuse(j, name, "a Split by GPT-2's pattern, Isolated, and a ByteLevel"));
}

static bool read_component(tg_json *j, const char *what, component *c)
{
    static const member members[] = {
        {"type", read_type, true},         {"add_prefix_space", read_prefix_space, false},
        {"trim_offsets", any_bool, false}, {"use_regex", read_use_regex, false},
        {"pattern", read_pattern, false},  {"behavior", read_behavior, false},
        {"invert", read_invert, false},    {"pretokenizers", read_parts, false},
    };
    c->uses_regex = true;
    c->adds_prefix_space = c->is_inverted = true; /* a file that leaves them out is refused, as by Hugging Face */
    return READ_OBJECT(j, what, members, c);
}

static bool read_pre_tokenizer(tg_json *j, const tg_json_text *name, void *out)
{
    component c = {.is_part = false};
    (void)out;
    if (tg_json_next(j) == '{' && !read_component(j, "pre_tokenizer", &c)) {
        return false;
    }
    bool is_byte_level = c.type == BYTE_LEVEL && c.uses_regex && !c.adds_prefix_space;
    return is_byte_level || (c.type == SEQUENCE && c.has_gpt2s_parts) ||
           refuse(j, name,
                  "a ByteLevel with use_regex and without add_prefix_space, or a Sequence of GPT-2's Split "
                  "and a ByteLevel");
}

static bool null_or_byte_level(tg_json *j, const tg_json_text *name, void *out)
{
    component c = {.is_part = false};
    (void)out;
    if (tg_json_word(j, "null")) {
        return true;
    }
    return read_component(j, name->text, &c) && (c.type == BYTE_LEVEL || refuse(j, name, "null or a ByteLevel"));
}

/* ---- added_tokens ---- */

typedef struct added_token {
    int64_t id;
    tg_json_text content;
    bool is_special, is_normalized;
} added_token;

static bool read_id(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    return tg_json_uint(j, &((added_token *)out)->id);
}

static bool read_content(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    return tg_json_string(j, &((added_token *)out)->content);
}

static bool read_special(tg_json *j, const tg_json_text *name, void *out)
{
    ((added_token *)out)->is_special = tg_json_word(j, "true");
    return ((added_token *)out)->is_special || any_bool(j, name, out);
}

static bool read_normalized(tg_json *j, const tg_json_text *name, void *out)
{
    ((added_token *)out)->is_normalized = tg_json_word(j, "true");
    return ((added_token *)out)->is_normalized || any_bool(j, name, out);
}

static bool read_added_tokens(tg_json *j, const tg_json_text *name, void *out)
{
    static const member members[] = {
        {"id", read_id, true},           {"content", read_content, true}, {"single_word", must_be_false, true},
        {"lstrip", must_be_false, true}, {"rstrip", must_be_false, true}, {"normalized", read_normalized, true},
        {"special", read_special, true},
    };
    tg_token_list *added = &((tg_vocabulary_lists *)out)->added;
    size_t count = 0;
    (void)name;
    if (!tg_json_begin(j, '[')) {
        return false;
    }
    while (tg_json_more(j, ']', &count)) {
        added_token token = {.id = 0};
        if (!READ_OBJECT(j, "an added token", members, &token) ||
            !tg_token_list_add(j, added, token.content.at, token.id)) {
            return false;
        }
        added->tokens[added->count - 1].is_special = token.is_special;
        added->tokens[added->count - 1].is_normalized = token.is_normalized;
    }
    return !j->failed;
}

/* ---- model ---- */

static bool read_model_type(tg_json *j, const tg_json_text *name, void *out)
{
    (void)out;
    return is_string(j, "BPE") || (!j->failed && refuse(j, name, "\"BPE\""));
}

static bool read_vocab(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    return tg_token_list_read(j, &((tg_vocabulary_lists *)out)->tokens);
}

/* Reads "left right", and puts a NUL between the two. */
static bool read_joined_merge(tg_json *j, tg_token_list *merges)
{
    tg_json_text merge;
    if (!tg_json_string(j, &merge)) {
        return false;
    }
    char *space = strchr(merge.text, ' ');
    if (!space || strchr(space + 1, ' ')) {
        return tg_json_fail(j, merge.at, "the merge \"%.*s\" is not two tokens and one space", TG_CUT(merge.text, 60));
    }
    *space = '\0';
    return tg_token_list_add(j, merges, merge.at, 0) &&
           tg_token_list_add(j, merges, (size_t)(space - j->text), 0); /* as if the space were the quotation mark */
}

/* Reads ["left", "right"]. */
static bool read_separate_merge(tg_json *j, tg_token_list *merges)
{
    size_t count = 0, at = j->at;
    tg_json_text token;
    if (!tg_json_begin(j, '[')) {
        return false;
    }
    while (tg_json_more(j, ']', &count)) {
        if (!tg_json_string(j, &token) || !tg_token_list_add(j, merges, token.at, 0)) {
            return false;
        }
    }
    return !j->failed &&
           (count == 2 || tg_json_fail(j, at, "the number of tokens of a merge is %zu; it must be 2", count));
}

static bool read_merges(tg_json *j, const tg_json_text *name, void *out)
{
    tg_token_list *merges = &((tg_vocabulary_lists *)out)->merges;
    size_t count = 0;
    (void)name;
    if (!tg_json_begin(j, '[')) {
        return false;
    }
    while (tg_json_more(j, ']', &count)) {
        bool is_separate = tg_json_next(j) == '[';
        if (!(is_separate ? read_separate_merge(j, merges) : read_joined_merge(j, merges))) {
            return false;
        }
    }
    return !j->failed;
}

static bool read_model(tg_json *j, const tg_json_text *name, void *out)
{
    static const member members[] = {
        {"type", read_model_type, false}, /* old files have none */
        {"dropout", must_be_null, false},
        {"unk_token", any_string, false},
        {"continuing_subword_prefix", must_be_empty, false},
        {"end_of_word_suffix", must_be_empty, false},
        {"fuse_unk", null_or_bool, false},
        {"byte_fallback", null_or_bool, false},
        {"ignore_merges", null_or_false, false},
        {"vocab", read_vocab, true},
        {"merges", read_merges, true},
    };
    (void)name;
    return READ_OBJECT(j, "model", members, out);
}

bool tg_tokenizer_json_read(tg_json *j, tg_vocabulary_lists *lists)
{
    static const member members[] = {
        {"version", must_be_version, false},
        {"truncation", must_be_null, false},
        {"padding", must_be_null, false},
        {"added_tokens", read_added_tokens, false},
        {"normalizer", must_be_null, false},
        {"pre_tokenizer", read_pre_tokenizer, true},
        {"post_processor", null_or_byte_level, false},
        {"decoder", null_or_byte_level, false},
        {"model", read_model, true},
    };
    return READ_OBJECT(j, "the file", members, lists);
}
