/* tokenizer_json: the members of tokenizer.json (huggingface/tokenizers, serialization of Tokenizer, of its stages, and
 * of BPE and WordPiece).
 *
 *   version           "1.0"
 *   truncation        null, or {"max_length", "strategy", "stride", "direction"}
 *   padding           null, or {"strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"}
 *   added_tokens      [{"id", "content", "special", "normalized", "single_word", "lstrip", "rstrip"}, ...]
 *   normalizer, pre_tokenizer, post_processor, decoder
 *                     null, or {"type", ...}; the type Sequence has a list of them
 *   model             {"type": "BPE", "vocab": {"token": id}, "merges": ["left right"] or [["left", "right"]], ...},
 *                     or {"type": "WordPiece", "vocab", ...}
 *
 * An object is read by a table of its members (json_members.h). A member that is unknown, or given twice, is an error.
 * The stages are those of stages_json.c.
 */
#include <stddef.h>
#include <string.h>

#include "text/json_members.h"
#include "text/vocabulary_json.h"

/* ---- what is read ---- */

typedef struct reading {
    tg_vocabulary *v;
    tg_vocabulary_lists *lists;
    tg_json_text model_type;
    size_t prefix_at;
    char *suffix;
    tg_model model;
} reading;

static bool must_be_null(tg_json *j, const tg_json_text *name, void *out)
{
    (void)out;
    return tg_json_word(j, "null") || tg_member_refuse(j, name, "null; anything else gives other ids");
}

static bool null_or_bool(tg_json *j, const tg_json_text *name, void *out)
{
    return tg_json_word(j, "null") || tg_read_bool(j, name, out);
}

static bool null_or_number(tg_json *j, const tg_json_text *name, void *out)
{
    return tg_json_word(j, "null") || tg_read_number(j, name, out);
}

static bool null_or_string(tg_json *j, const tg_json_text *name, void *out)
{
    return tg_json_word(j, "null") || tg_read_string(j, name, out);
}

/* Keeps the JSON of a value that is read next, unless it is null. */
static bool keep_setting(tg_json *j, char **setting)
{
    tg_json_next(j);
    size_t begin = j->at, end = begin, depth = 0;
    for (bool in_string = false; end < j->length; end++) {
        char c = j->text[end];
        if (in_string && c == '\\' && end + 1 < j->length) {
            end++;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string && (c == '{' || c == '[')) {
            depth++;
        } else if (!in_string && (c == '}' || c == ']')) {
            depth -= depth > 0;
            if (depth == 0) {
                end++;
                break;
            }
        }
    }
    if (j->text[begin] != '{') { /* null, or an error */
        return true;
    }
    *setting = tg_alloc(end - begin + 1, 1);
    if (!*setting) {
        return tg_member_no_memory(j);
    }
    memcpy(*setting, j->text + begin, end - begin);
    (*setting)[end - begin] = '\0';
    return true;
}

static bool read_list(tg_json *j, const tg_json_text *name, void *out)
{
    tg_tokenizer *z = ((reading *)out)->v->z;
    int list = 0;
    while (strcmp(tg_list_names[list], name->text) != 0) {
        list++;
    }
    return keep_setting(j, &z->settings[list]) &&
           (tg_json_word(j, "null") || tg_stages_json_read(j, (tg_list)list, &z->lists[list]));
}

/* ---- truncation and padding ---- */

static bool read_direction(tg_json *j, const tg_json_text *name, void *out)
{
    static const char *const choices[] = {"Right", "Left"};
    int choice;
    bool is_read = tg_read_choice(j, name, &choice, choices, 2, "Right or Left");
    *(bool *)out = is_read && choice == 1;
    return is_read;
}

static bool read_fixed(tg_json *j, const tg_json_text *name, void *out)
{
    static const tg_member members[] = {{"Fixed", tg_read_number, offsetof(tg_limits, fill)}};
    static const char *const choices[] = {"BatchLongest"};
    int choice;
    return tg_json_next(j) == '{' ? tg_members_read(j, "strategy", members, 1, "Fixed ", "", out)
                                  : tg_read_choice(j, name, &choice, choices, 1, "BatchLongest or Fixed");
}

static bool read_padding(tg_json *j, const tg_json_text *name, void *out)
{
    static const tg_member members[] = {
        {"strategy", read_fixed, 0},
        {"direction", read_direction, offsetof(tg_limits, pads_left)},
        {"pad_to_multiple_of", null_or_number, offsetof(tg_limits, multiple)},
        {"pad_id", tg_read_number, offsetof(tg_limits, pad)},
        {"pad_type_id", tg_read_past, 0},
        {"pad_token", tg_read_past, 0},
    };
    tg_tokenizer *z = ((reading *)out)->v->z;
    return keep_setting(j, &z->settings[TG_PADDING]) &&
           (tg_json_word(j, "null") ||
            tg_members_read(j, name->text, members, TG_COUNT_OF(members), "strategy direction pad_id ",
                            "pad_to_multiple_of pad_type_id pad_token ", &z->limits));
}

static bool read_truncation(tg_json *j, const tg_json_text *name, void *out)
{
    static const tg_member members[] = {
        {"direction", read_direction, offsetof(tg_limits, cuts_left)},
        {"max_length", tg_read_number, offsetof(tg_limits, most)},
        {"strategy", tg_read_past, 0},
        {"stride", tg_read_past, 0},
    };
    tg_tokenizer *z = ((reading *)out)->v->z;
    return keep_setting(j, &z->settings[TG_TRUNCATION]) &&
           (tg_json_word(j, "null") || tg_members_read(j, name->text, members, TG_COUNT_OF(members), "max_length ",
                                                       "direction strategy stride ", &z->limits));
}

/* ---- added_tokens ---- */

typedef struct added_token {
    int64_t id;
    tg_json_text content;
    bool is_special, is_normalized, strips_left, strips_right, is_single_word;
} added_token;

static bool read_content(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    return tg_json_string(j, out);
}

static bool read_added_tokens(tg_json *j, const tg_json_text *name, void *out)
{
    static const tg_member members[] = {
        {"id", tg_read_number, offsetof(added_token, id)},
        {"content", read_content, offsetof(added_token, content)},
        {"single_word", tg_read_bool, offsetof(added_token, is_single_word)},
        {"lstrip", tg_read_bool, offsetof(added_token, strips_left)},
        {"rstrip", tg_read_bool, offsetof(added_token, strips_right)},
        {"normalized", tg_read_bool, offsetof(added_token, is_normalized)},
        {"special", tg_read_bool, offsetof(added_token, is_special)},
    };
    tg_vocabulary_lists *lists = ((reading *)out)->lists;
    size_t count = 0;
    (void)name;
    if (!tg_json_begin(j, '[')) {
        return false;
    }
    while (tg_json_more(j, ']', &count)) {
        added_token t = {.id = 0};
        if (!tg_members_read(j, "an added token", members, TG_COUNT_OF(members),
                             "id content single_word lstrip rstrip normalized special ", "", &t) ||
            !tg_token_list_add(j, &lists->added, t.content.at, t.id)) {
            return false;
        }
        if (!tg_grow(&lists->flags, &lists->flag_capacity, count - 1, count, sizeof *lists->flags)) {
            return tg_member_no_memory(j);
        }
        lists->flags[count - 1] = (tg_added_token){.id = (int32_t)t.id,
                                                   .is_special = t.is_special,
                                                   .is_normalized = t.is_normalized,
                                                   .strips_left = t.strips_left,
                                                   .strips_right = t.strips_right,
                                                   .is_single_word = t.is_single_word};
    }
    return !j->failed;
}

/* ---- model ---- */

static bool read_model_type(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    return tg_json_string(j, &((reading *)out)->model_type);
}

static bool read_vocab(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    return tg_token_list_read(j, &((reading *)out)->lists->tokens);
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
    tg_token_list *merges = &((reading *)out)->lists->merges;
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

static bool read_prefix(tg_json *j, const tg_json_text *name, void *out)
{
    reading *r = out;
    r->prefix_at = name->at;
    return null_or_string(j, name, &r->model.prefix);
}

static bool must_be_empty(tg_json *j, const tg_json_text *name, void *out)
{
    char **suffix = &((reading *)out)->suffix;
    return null_or_string(j, name, suffix) &&
           (!*suffix || !**suffix || tg_member_refuse(j, name, "null or \"\"; anything else gives other ids"));
}

static bool read_model(tg_json *j, const tg_json_text *name, void *out)
{
    static const tg_member members[] = {
        {"type", read_model_type, 0}, /* old files have none */
        {"dropout", must_be_null, 0},
        {"unk_token", null_or_string, offsetof(reading, model.unknown)},
        {"continuing_subword_prefix", read_prefix, 0},
        {"end_of_word_suffix", must_be_empty, 0},
        {"fuse_unk", null_or_bool, offsetof(reading, model.fuses_unknown)},
        {"byte_fallback", null_or_bool, offsetof(reading, model.has_byte_fallback)},
        {"ignore_merges", null_or_bool, offsetof(reading, model.ignores_merges)},
        {"max_input_chars_per_word", tg_read_number, offsetof(reading, model.most_characters)},
        {"vocab", read_vocab, 0},
        {"merges", read_merges, 0},
    };
    reading *r = out;
    tg_model *m = &r->model;
    tg_members o = {name->text, members, TG_COUNT_OF(members), r, 0, 0};
    if (!tg_members_read_all(j, &o)) {
        return false;
    }
    const char *type = r->model_type.text ? r->model_type.text : "BPE";
    if (strcmp(type, "WordPiece") == 0) {
        m->kind = TG_MODEL_WORD_PIECE;
        return tg_members_check(j, &o, "type unk_token continuing_subword_prefix max_input_chars_per_word vocab ", "");
    }
    if (strcmp(type, "BPE") != 0) {
        return tg_json_fail(j, r->model_type.at, "the model \"%.*s\" is not supported; it must be BPE or WordPiece",
                            TG_CUT(type, 60));
    }
    if (m->prefix && m->prefix[0]) {
        return tg_json_fail(j, r->prefix_at,
                            "\"continuing_subword_prefix\" must be null or \"\"; anything else gives other ids");
    }
    return tg_members_check(
        j, &o, "vocab merges ",
        "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback "
        "ignore_merges ");
}

static bool must_be_version(tg_json *j, const tg_json_text *name, void *out)
{
    static const char *const choices[] = {"1.0"};
    int choice;
    (void)out;
    return tg_read_choice(j, name, &choice, choices, 1, "\"1.0\"");
}

bool tg_tokenizer_json_read(tg_vocabulary *v, tg_json *j, tg_vocabulary_lists *lists)
{
    static const tg_member members[] = {
        {"version", must_be_version, 0},        {"truncation", read_truncation, 0}, {"padding", read_padding, 0},
        {"added_tokens", read_added_tokens, 0}, {"normalizer", read_list, 0},       {"pre_tokenizer", read_list, 0},
        {"post_processor", read_list, 0},       {"decoder", read_list, 0},          {"model", read_model, 0},
    };
    reading r = {.v = v, .lists = lists, .model = {.unknown_id = -1}};
    bool is_read =
        tg_members_read(j, "the file", members, TG_COUNT_OF(members), "model ",
                        "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder ", &r);
    tg_free(r.suffix);
    v->z->model = r.model;
    return is_read;
}

bool tg_pre_tokenizer_json_read(tg_tokenizer *z, tg_json *j)
{
    return keep_setting(j, &z->settings[TG_PRE_TOKENIZERS]) &&
           tg_stages_json_read(j, TG_PRE_TOKENIZERS, &z->lists[TG_PRE_TOKENIZERS]);
}
