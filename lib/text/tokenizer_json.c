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
    return tg_member_refuse(j, name, "null; anything else gives other ids");
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
    static const tg_member members[] = {{"Fixed", tg_read_number, offsetof(tg_limits, fill), TG_VALUE}};
    static const char *const choices[] = {"BatchLongest"};
    int choice;
    return tg_json_next(j) == '{' ? tg_members_read(j, "strategy", members, 1, "Fixed ", "", out)
                                  : tg_read_choice(j, name, &choice, choices, 1, "BatchLongest or Fixed");
}

static bool read_padding(tg_json *j, const tg_json_text *name, void *out)
{
    static const tg_member members[] = {
        {"strategy", read_fixed, 0, TG_VALUE},
        {"direction", read_direction, offsetof(tg_limits, pads_left), TG_VALUE},
        {"pad_to_multiple_of", tg_read_number, offsetof(tg_limits, multiple), TG_VALUE_OR_NULL},
        {"pad_id", tg_read_number, offsetof(tg_limits, pad), TG_VALUE},
        {"pad_type_id", tg_read_past, 0, TG_VALUE},
        {"pad_token", tg_read_past, 0, TG_VALUE},
    };
    return tg_members_read(j, name->text, members, TG_COUNT_OF(members), "strategy direction pad_id ",
                           "pad_to_multiple_of pad_type_id pad_token ", out);
}

static bool read_truncation(tg_json *j, const tg_json_text *name, void *out)
{
    static const tg_member members[] = {
        {"direction", read_direction, offsetof(tg_limits, cuts_left), TG_VALUE},
        {"max_length", tg_read_number, offsetof(tg_limits, most), TG_VALUE},
        {"strategy", tg_read_past, 0, TG_VALUE},
        {"stride", tg_read_past, 0, TG_VALUE},
    };
    return tg_members_read(j, name->text, members, TG_COUNT_OF(members), "max_length ", "direction strategy stride ",
                           out);
}

/* ---- settings ---- */

/* Reads a setting, and keeps its JSON. */
static bool read_setting(tg_json *j, const tg_json_text *name, void *out)
{
    const tg_vocabulary *v = ((reading *)out)->v;
    int setting = 0;
    while (strcmp(tg_setting_names[setting], name->text) != 0) {
        setting++;
    }
    tg_json_next(j);
    size_t begin = j->at;
    bool is_read = setting == TG_PADDING      ? read_padding(j, name, &v->z->limits)
                   : setting == TG_TRUNCATION ? read_truncation(j, name, &v->z->limits)
                                              : tg_stages_json_read(j, (tg_list)setting, &v->z->lists[setting]);
    if (is_read) {
        tg_text_buffer kept = {0};
        tg_text_add_bytes(&kept, v->copy + begin, j->at - begin);
        v->z->settings[setting] = kept.bytes;
        is_read = !kept.failed || tg_member_no_memory(j);
    }
    return is_read;
}

/* ---- added_tokens ---- */

typedef struct added_token {
    int64_t id;
    tg_json_text content;
    tg_added_token flags;
} added_token;

static bool read_content(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    return tg_json_string(j, out);
}

static bool read_added_token(tg_json *j, const tg_json_text *name, void *out)
{
    static const tg_member members[] = {
        {"id", tg_read_number, offsetof(added_token, id), TG_VALUE},
        {"content", read_content, offsetof(added_token, content), TG_VALUE},
        {"single_word", tg_read_bool, offsetof(added_token, flags.is_single_word), TG_VALUE},
        {"lstrip", tg_read_bool, offsetof(added_token, flags.strips_left), TG_VALUE},
        {"rstrip", tg_read_bool, offsetof(added_token, flags.strips_right), TG_VALUE},
        {"normalized", tg_read_bool, offsetof(added_token, flags.is_normalized), TG_VALUE},
        {"special", tg_read_bool, offsetof(added_token, flags.is_special), TG_VALUE},
    };
    tg_vocabulary_lists *lists = ((reading *)out)->lists;
    added_token t = {.id = 0};
    (void)name;
    if (!tg_members_read(j, "an added token", members, TG_COUNT_OF(members),
                         "id content single_word lstrip rstrip normalized special ", "", &t) ||
        !tg_token_list_add(j, &lists->added, t.content.at, t.id)) {
        return false;
    }
    size_t count = lists->added.count;
    if (!tg_grow(&lists->flags, &lists->flag_capacity, count - 1, count, sizeof *lists->flags)) {
        return tg_member_no_memory(j);
    }
    t.flags.id = (int32_t)t.id;
    lists->flags[count - 1] = t.flags;
    return true;
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

static bool read_merge(tg_json *j, const tg_json_text *name, void *out)
{
    tg_token_list *merges = &((reading *)out)->lists->merges;
    (void)name;
    return tg_json_next(j) == '[' ? read_separate_merge(j, merges) : read_joined_merge(j, merges);
}

static bool read_prefix(tg_json *j, const tg_json_text *name, void *out)
{
    reading *r = out;
    r->prefix_at = name->at;
    return tg_read_string(j, name, &r->model.prefix);
}

static bool must_be_empty(tg_json *j, const tg_json_text *name, void *out)
{
    char **suffix = &((reading *)out)->suffix;
    return tg_read_string(j, name, suffix) &&
           (!**suffix || tg_member_refuse(j, name, "null or \"\"; anything else gives other ids"));
}

static bool read_model(tg_json *j, const tg_json_text *name, void *out)
{
    static const tg_member members[] = {
        {"type", read_model_type, 0, TG_VALUE}, /* old files have none */
        {"dropout", must_be_null, 0, TG_VALUE_OR_NULL},
        {"unk_token", tg_read_string, offsetof(reading, model.unknown), TG_VALUE_OR_NULL},
        {"continuing_subword_prefix", read_prefix, 0, TG_VALUE_OR_NULL},
        {"end_of_word_suffix", must_be_empty, 0, TG_VALUE_OR_NULL},
        {"fuse_unk", tg_read_bool, offsetof(reading, model.fuses_unknown), TG_VALUE_OR_NULL},
        {"byte_fallback", tg_read_bool, offsetof(reading, model.has_byte_fallback), TG_VALUE_OR_NULL},
        {"ignore_merges", tg_read_bool, offsetof(reading, model.ignores_merges), TG_VALUE_OR_NULL},
        {"max_input_chars_per_word", tg_read_number, offsetof(reading, model.most_characters), TG_VALUE},
        {"vocab", read_vocab, 0, TG_VALUE},
        {"merges", read_merge, 0, TG_VALUES},
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
        {"version", must_be_version, 0, TG_VALUE},
        {"truncation", read_setting, 0, TG_VALUE_OR_NULL},
        {"padding", read_setting, 0, TG_VALUE_OR_NULL},
        {"added_tokens", read_added_token, 0, TG_VALUES},
        {"normalizer", read_setting, 0, TG_VALUE_OR_NULL},
        {"pre_tokenizer", read_setting, 0, TG_VALUE_OR_NULL},
        {"post_processor", read_setting, 0, TG_VALUE_OR_NULL},
        {"decoder", read_setting, 0, TG_VALUE_OR_NULL},
        {"model", read_model, 0, TG_VALUE},
    };
    reading r = {.v = v, .lists = lists, .model = {.unknown_id = -1}};
    bool is_read =
        tg_members_read(j, "the file", members, TG_COUNT_OF(members), "model ",
                        "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder ", &r);
    tg_free(r.suffix);
    v->z->model = r.model;
    return is_read;
}
