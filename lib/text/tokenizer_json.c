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
 * An object is read by a table of its members. A member that is unknown, or given twice, is an error. The members of
 * all kinds of stages are in one table, because the type may stand behind them; each kind says which ones it has.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>
#include "text/vocabulary_json.h"

/* ---- objects by tables ---- */

typedef struct member {
    const char *name;
    /* reads the value; `name` is where an error is reported */
    bool (*read)(tg_json *j, const tg_json_text *name, void *out);
    size_t offset; /* of the value in what is read */
} member;

typedef struct object {
    const char *what; /* for messages */
    const member *members;
    size_t count;
    void *out;
    size_t start;   /* the position */
    uint32_t given; /* bit k: member k */
} object;

static bool read_object(tg_json *j, object *o)
{
    size_t count = 0, k;
    tg_json_text name;
    tg_json_next(j);
    o->start = j->at;
    if (!tg_json_begin(j, '{')) {
        return false;
    }
    while (tg_json_key(j, &count, &name)) {
        for (k = 0; k < o->count && strcmp(o->members[k].name, name.text) != 0; k++) {
        }
        if (k == o->count) {
            return tg_json_fail(j, name.at, "%s has the unknown member \"%.*s\"", o->what, TG_CUT(name.text, 60));
        }
        if (o->given >> k & 1) {
            return tg_json_fail(j, name.at, "%s has \"%s\" twice", o->what, o->members[k].name);
        }
        o->given |= UINT32_C(1) << k;
        if (!o->members[k].read(j, &name, (char *)o->out + o->members[k].offset)) {
            return false;
        }
    }
    return !j->failed;
}

/* Returns whether a list of names, each with a space behind it, has a name. */
static bool has_name(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names; *at; at = strchr(at, ' ') + 1) {
        if (strncmp(at, name, length) == 0 && at[length] == ' ') {
            return true;
        }
    }
    return false;
}

/* Checks that an object has all required members, and only those that are allowed. */
static bool check_members(tg_json *j, const object *o, const char *required, const char *optional)
{
    for (size_t k = 0; k < o->count; k++) {
        const char *name = o->members[k].name;
        bool is_required = has_name(required, name), is_given = o->given >> k & 1;
        if (is_required && !is_given) {
            return tg_json_fail(j, o->start, "%s has no \"%s\"", o->what, name);
        }
        if (is_given && !is_required && !has_name(optional, name)) {
            return tg_json_fail(j, o->start, "%s has the unknown member \"%s\"", o->what, name);
        }
    }
    return true;
}

/* Reads an object of one kind. */
static bool read_members(tg_json *j, const char *what, const member *members, size_t count, const char *required,
                         const char *optional, void *out)
{
    object o = {what, members, count, out, 0, 0};
    return read_object(j, &o) && check_members(j, &o, required, optional);
}

#define COUNT(members) (sizeof(members) / sizeof *(members))

/* ---- values ---- */

static bool refuse(tg_json *j, const tg_json_text *name, const char *allowed)
{
    return tg_json_fail(j, name->at, "\"%s\" must be %s", name->text, allowed);
}

static bool must_be_null(tg_json *j, const tg_json_text *name, void *out)
{
    (void)out;
    return tg_json_word(j, "null") || refuse(j, name, "null; anything else gives other ids");
}

static bool read_bool(tg_json *j, const tg_json_text *name, void *out)
{
    *(bool *)out = tg_json_word(j, "true");
    return *(bool *)out || tg_json_word(j, "false") || refuse(j, name, "true or false");
}

static bool null_or_bool(tg_json *j, const tg_json_text *name, void *out)
{
    return tg_json_word(j, "null") || read_bool(j, name, out);
}

static bool read_number(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    return tg_json_uint(j, out);
}

static bool null_or_number(tg_json *j, const tg_json_text *name, void *out)
{
    return tg_json_word(j, "null") || read_number(j, name, out);
}

static bool out_of_memory(tg_json *j)
{
    j->failed = true;
    return tg_error_set(j->error, TG_ERROR_MEMORY, "%s: '%s': out of memory", j->call, j->path);
}

/* Reads a string into memory of its own. */
static bool read_string(tg_json *j, const tg_json_text *name, void *out)
{
    tg_json_text string;
    char **text = out;
    (void)name;
    if (!tg_json_string(j, &string)) {
        return false;
    }
    size_t size = strlen(string.text) + 1;
    tg_free(*text); /* of another member of the stage */
    *text = tg_alloc(size, 1);
    if (!*text) {
        return out_of_memory(j);
    }
    memcpy(*text, string.text, size);
    return true;
}

static bool null_or_string(tg_json *j, const tg_json_text *name, void *out)
{
    return tg_json_word(j, "null") || read_string(j, name, out);
}

static bool read_character(tg_json *j, const tg_json_text *name, void *out)
{
    char *const *text = out;
    return read_string(j, name, out) &&
           (((*text)[0] && (*text)[tg_character_size((*text)[0])] == '\0') || refuse(j, name, "one character"));
}

/* Reads one of some strings as its index. */
static bool read_choice(tg_json *j, const tg_json_text *name, int *out, const char *const *choices, int count,
                        const char *allowed)
{
    tg_json_text text;
    if (!tg_json_string(j, &text)) {
        return false;
    }
    for (*out = 0; *out < count && strcmp(text.text, choices[*out]) != 0; ++*out) {
    }
    return *out < count || refuse(j, name, allowed);
}

static bool read_behavior(tg_json *j, const tg_json_text *name, void *out)
{
    static const char *const choices[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    return read_choice(j, name, out, choices, 5, "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

static bool read_scheme(tg_json *j, const tg_json_text *name, void *out)
{
    static const char *const choices[] = {"always", "first", "never"};
    return read_choice(j, name, out, choices, 3, "always, first or never");
}

static bool read_direction(tg_json *j, const tg_json_text *name, void *out)
{
    static const char *const choices[] = {"Right", "Left"};
    int choice;
    bool is_read = read_choice(j, name, &choice, choices, 2, "Right or Left");
    *(bool *)out = is_read && choice == 1;
    return is_read;
}

static bool must_be_version(tg_json *j, const tg_json_text *name, void *out)
{
    static const char *const choices[] = {"1.0"};
    int choice;
    (void)out;
    return read_choice(j, name, &choice, choices, 1, "\"1.0\"");
}

static bool skip(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    (void)out;
    return tg_json_skip(j);
}

/* ---- stages ---- */

/* A stage that is read, and what only the reader needs. */
typedef struct component {
    tg_stage stage;
    tg_json_text type;
    tg_list list;
    tg_stages *stages; /* where it goes; a Sequence has put its parts there */
    bool is_part;
    bool has_old_space, old_space; /* add_prefix_space of a Metaspace */
    tg_token_list single;          /* of a template: its tokens; the id is 1 for the text */
    tg_token_list ids;             /* the ids of its special tokens, each with the token's name */
} component;

static const char *const list_names[TG_LISTS] = {"normalizer", "pre_tokenizer", "post_processor", "decoder"};

static bool read_type(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    return tg_json_string(j, &((component *)out)->type);
}

static bool read_literal(tg_json *j, const tg_json_text *name, void *out)
{
    ((tg_stage *)out)->is_literal = true;
    return read_string(j, name, &((tg_stage *)out)->text);
}

static bool read_pattern(tg_json *j, const tg_json_text *name, void *out)
{
    static const member members[] = {{"Regex", read_string, offsetof(tg_stage, text)}, {"String", read_literal, 0}};
    (void)name;
    object o = {"pattern", members, COUNT(members), &((component *)out)->stage, 0, 0};
    return read_object(j, &o) && (o.given == 1 || o.given == 2 || refuse(j, name, "a Regex or a String"));
}

static bool read_prefix_space(tg_json *j, const tg_json_text *name, void *out)
{
    component *c = out;
    c->has_old_space = true;
    bool is_read = read_bool(j, name, &c->old_space);
    c->stage.adds_prefix_space = c->old_space;
    return is_read;
}

static bool read_strip_accents(tg_json *j, const tg_json_text *name, void *out)
{
    tg_stage *s = &((component *)out)->stage;
    if (tg_json_word(j, "null")) {
        return true;
    }
    s->has_strips_accents = true;
    return read_bool(j, name, &s->strips_accents);
}

/* Reads {"id": "A", "type_id": 0}. The name is kept by its position. */
static bool read_template_name(tg_json *j, const tg_json_text *name, void *out)
{
    tg_json_text text;
    (void)name;
    if (!tg_json_string(j, &text)) {
        return false;
    }
    *(size_t *)out = text.at;
    return true;
}

static bool read_template_id(tg_json *j, const tg_json_text *name, void *out)
{
    static const member members[] = {{"id", read_template_name, 0}, {"type_id", skip, 0}};
    return read_members(j, name->text, members, COUNT(members), "id type_id ", "", out);
}

static bool read_single(tg_json *j, const tg_json_text *name, void *out)
{
    static const member members[] = {{"Sequence", read_template_id, 0},
                                     {"SpecialToken", read_template_id, sizeof(size_t)}};
    size_t count = 0;
    if (!tg_json_begin(j, '[')) {
        return false;
    }
    while (tg_json_more(j, ']', &count)) {
        size_t at[2];
        object o = {"a part of the template", members, COUNT(members), at, 0, 0};
        if (!read_object(j, &o) ||
            (o.given != 1 && o.given != 2 && !refuse(j, name, "a list of Sequence and SpecialToken")) ||
            !tg_token_list_add(j, &((component *)out)->single, at[o.given - 1], o.given == 1)) {
            return false;
        }
    }
    return !j->failed;
}

/* Where the ids of a special token of a template are put. */
typedef struct special_ids {
    component *c;
    size_t at; /* the position of the name */
} special_ids;

static bool read_ids(tg_json *j, const tg_json_text *name, void *out)
{
    const special_ids *ids = out;
    size_t count = 0;
    int64_t id;
    (void)name;
    if (!tg_json_begin(j, '[')) {
        return false;
    }
    while (tg_json_more(j, ']', &count)) {
        if (!tg_json_uint(j, &id) || !tg_token_list_add(j, &ids->c->ids, ids->at, id)) {
            return false;
        }
    }
    return !j->failed;
}

static bool read_special_tokens(tg_json *j, const tg_json_text *name, void *out)
{
    static const member members[] = {{"id", skip, 0}, {"ids", read_ids, 0}, {"tokens", skip, 0}};
    size_t count = 0;
    tg_json_text key;
    (void)name;
    if (!tg_json_begin(j, '{')) {
        return false;
    }
    while (tg_json_key(j, &count, &key)) {
        special_ids ids = {out, key.at};
        if (!read_members(j, "a special token", members, COUNT(members), "id ids tokens ", "", &ids)) {
            return false;
        }
    }
    return !j->failed;
}

/* Writes the ids of a template to its stage. */
static bool finish_template(tg_json *j, component *c)
{
    c->stage.ids = tg_alloc(c->single.count * (c->ids.count + 1), sizeof *c->stage.ids);
    if (!c->stage.ids) {
        return out_of_memory(j);
    }
    for (size_t i = 0; i < c->single.count; i++) {
        const char *name = j->text + c->single.tokens[i].at + 1;
        size_t before = c->stage.id_count;
        if (c->single.tokens[i].id == 1 && strcmp(name, "A") == 0) {
            c->stage.ids[c->stage.id_count++] = -1;
        }
        for (size_t k = 0; c->single.tokens[i].id == 0 && k < c->ids.count; k++) {
            if (strcmp(name, j->text + c->ids.tokens[k].at + 1) == 0) {
                c->stage.ids[c->stage.id_count++] = c->ids.tokens[k].id;
            }
        }
        if (c->stage.id_count == before) {
            return tg_json_fail(j, c->single.tokens[i].at,
                                "\"%.*s\" is neither the Sequence A nor a special token of the template",
                                TG_CUT(name, 60));
        }
    }
    return true;
}

static bool read_parts(tg_json *j, const tg_json_text *name, void *out);

static const member stage_members[] = {
    {"type", read_type, 0},
    {"normalizers", read_parts, 0},
    {"pretokenizers", read_parts, 0},
    {"processors", read_parts, 0},
    {"decoders", read_parts, 0},
    {"add_prefix_space", read_prefix_space, 0},
    {"trim_offsets", read_bool, offsetof(component, stage.trims_offsets)},
    {"use_regex", read_bool, offsetof(component, stage.uses_regex)},
    {"pattern", read_pattern, 0},
    {"behavior", read_behavior, offsetof(component, stage.behavior)},
    {"invert", read_bool, offsetof(component, stage.is_inverted)},
    {"individual_digits", read_bool, offsetof(component, stage.individual_digits)},
    {"replacement", read_character, offsetof(component, stage.content)},
    {"prepend_scheme", read_scheme, offsetof(component, stage.scheme)},
    {"split", read_bool, offsetof(component, stage.splits)},
    {"content", read_string, offsetof(component, stage.content)},
    {"prepend", read_string, offsetof(component, stage.content)},
    {"prefix", read_string, offsetof(component, stage.content)},
    {"clean_text", read_bool, offsetof(component, stage.cleans)},
    {"handle_chinese_chars", read_bool, offsetof(component, stage.separates_chinese)},
    {"strip_accents", read_strip_accents, 0},
    {"lowercase", read_bool, offsetof(component, stage.lowers)},
    {"cleanup", read_bool, offsetof(component, stage.cleans_up)},
    {"start", read_number, offsetof(component, stage.start)},
    {"stop", read_number, offsetof(component, stage.stop)},
    {"single", read_single, 0},
    {"pair", skip, 0},
    {"special_tokens", read_special_tokens, 0},
};

static bool read_component(tg_json *j, component *c);

static bool read_parts(tg_json *j, const tg_json_text *name, void *out)
{
    const component *sequence = out;
    size_t count = 0;
    if (sequence->is_part) {
        return tg_json_fail(j, name->at, "a part of a Sequence has parts of its own");
    }
    if (!tg_json_begin(j, '[')) {
        return false;
    }
    while (tg_json_more(j, ']', &count)) {
        component part = {.list = sequence->list, .stages = sequence->stages, .is_part = true};
        if (!read_component(j, &part)) {
            return false;
        }
    }
    return !j->failed;
}

/* Returns the kind of a stage that has been read, NULL after an error. */
static const tg_stage_kind *kind_of(tg_json *j, const component *c)
{
    static const tg_stage_kind *(*const find[TG_LISTS])(const char *name) = {tg_normalizer_kind, tg_pre_tokenizer_kind,
                                                                             tg_post_processor_kind, tg_decoder_kind};
    static const tg_stage_kind sequences[TG_LISTS] = {
        {"Sequence", "normalizers ", "", NULL, NULL, 0, NULL},
        {"Sequence", "pretokenizers ", "", NULL, NULL, 0, NULL},
        {"Sequence", "processors ", "", NULL, NULL, 0, NULL},
        {"Sequence", "decoders ", "", NULL, NULL, 0, NULL},
    };
    if (strcmp(c->type.text, "Sequence") == 0) {
        return &sequences[c->list];
    }
    const tg_stage_kind *kind = find[c->list](c->type.text);
    if (!kind) {
        tg_json_fail(j, c->type.at, "the type \"%.*s\" of a %s is not supported%s", TG_CUT(c->type.text, 60),
                     list_names[c->list], c->list == TG_NORMALIZERS ? TG_WITHOUT_UTF8PROC : "");
    }
    return kind;
}

/* Checks the members of a stage, and adds it to its list. */
static bool finish_component(tg_json *j, component *c, object *o)
{
    char what[100];
    if (!(o->given & 1)) {
        return tg_json_fail(j, o->start, "%s has no \"type\"", o->what);
    }
    const tg_stage_kind *kind = kind_of(j, c);
    if (!kind) {
        return false;
    }
    char required[100];
    snprintf(what, sizeof what, "the %s \"%s\"", list_names[c->list], kind->name);
    snprintf(required, sizeof required, "type %s", kind->required);
    o->what = what;
    if (!check_members(j, o, required, kind->optional)) {
        return false;
    }
    if (strcmp(kind->name, "Sequence") == 0) {
        return true;
    }
    if (c->list != TG_POST_PROCESSORS && c->has_old_space && has_name(kind->required, "replacement") && !c->old_space) {
        c->stage.scheme = TG_NEVER; /* as files before tokenizers 0.15 have it */
    }
    if (has_name(kind->required, "start") && !c->stage.content[0]) {
        return tg_json_fail(j, o->start, "the content of a Strip is empty");
    }
    if (c->single.count > 0 && !finish_template(j, c)) {
        return false;
    }
    if (c->stages->count == TG_MOST_STAGES) {
        return tg_json_fail(j, o->start, "the number of stages of a %s is above %d", list_names[c->list],
                            TG_MOST_STAGES);
    }
    c->stage.kind = kind;
    c->stages->stages[c->stages->count++] = c->stage;
    c->stage = (tg_stage){0};
    return true;
}

static bool read_component(tg_json *j, component *c)
{
    object o = {list_names[c->list], stage_members, COUNT(stage_members), c, 0, 0};
    c->stage.trims_offsets = c->stage.uses_regex = c->stage.splits = true;
    bool is_read = read_object(j, &o) && finish_component(j, c, &o);
    tg_free(c->stage.text);
    tg_free(c->stage.content);
    tg_free(c->stage.ids);
    tg_free(c->single.tokens);
    tg_free(c->ids.tokens);
    return is_read;
}

/* ---- what is read ---- */

typedef struct reading {
    tg_vocabulary *v;
    tg_vocabulary_lists *lists;
    tg_json_text model_type;
    size_t prefix_at;
    char *suffix;
    tg_model model;
} reading;

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
        return out_of_memory(j);
    }
    memcpy(*setting, j->text + begin, end - begin);
    (*setting)[end - begin] = '\0';
    return true;
}

static bool read_list(tg_json *j, const tg_json_text *name, void *out)
{
    tg_tokenizer *z = ((reading *)out)->v->z;
    int list = 0;
    while (strcmp(list_names[list], name->text) != 0) {
        list++;
    }
    component c = {.list = (tg_list)list, .stages = &z->lists[list]};
    return keep_setting(j, &z->settings[list]) && (tg_json_word(j, "null") || read_component(j, &c));
}

/* ---- truncation and padding ---- */

static bool read_fixed(tg_json *j, const tg_json_text *name, void *out)
{
    static const member members[] = {{"Fixed", read_number, offsetof(tg_limits, fill)}};
    static const char *const choices[] = {"BatchLongest"};
    int choice;
    return tg_json_next(j) == '{' ? read_members(j, "strategy", members, 1, "Fixed ", "", out)
                                  : read_choice(j, name, &choice, choices, 1, "BatchLongest or Fixed");
}

static bool read_padding(tg_json *j, const tg_json_text *name, void *out)
{
    static const member members[] = {
        {"strategy", read_fixed, 0},
        {"direction", read_direction, offsetof(tg_limits, pads_left)},
        {"pad_to_multiple_of", null_or_number, offsetof(tg_limits, multiple)},
        {"pad_id", read_number, offsetof(tg_limits, pad)},
        {"pad_type_id", skip, 0},
        {"pad_token", skip, 0},
    };
    tg_tokenizer *z = ((reading *)out)->v->z;
    return keep_setting(j, &z->settings[TG_PADDING]) &&
           (tg_json_word(j, "null") ||
            read_members(j, name->text, members, COUNT(members), "strategy direction pad_id ",
                         "pad_to_multiple_of pad_type_id pad_token ", &z->limits));
}

static bool read_truncation(tg_json *j, const tg_json_text *name, void *out)
{
    static const member members[] = {
        {"direction", read_direction, offsetof(tg_limits, cuts_left)},
        {"max_length", read_number, offsetof(tg_limits, most)},
        {"strategy", skip, 0},
        {"stride", skip, 0},
    };
    tg_tokenizer *z = ((reading *)out)->v->z;
    return keep_setting(j, &z->settings[TG_TRUNCATION]) &&
           (tg_json_word(j, "null") || read_members(j, name->text, members, COUNT(members), "max_length ",
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
    static const member members[] = {
        {"id", read_number, offsetof(added_token, id)},
        {"content", read_content, offsetof(added_token, content)},
        {"single_word", read_bool, offsetof(added_token, is_single_word)},
        {"lstrip", read_bool, offsetof(added_token, strips_left)},
        {"rstrip", read_bool, offsetof(added_token, strips_right)},
        {"normalized", read_bool, offsetof(added_token, is_normalized)},
        {"special", read_bool, offsetof(added_token, is_special)},
    };
    tg_vocabulary_lists *lists = ((reading *)out)->lists;
    size_t count = 0;
    (void)name;
    if (!tg_json_begin(j, '[')) {
        return false;
    }
    while (tg_json_more(j, ']', &count)) {
        added_token t = {.id = 0};
        if (!read_members(j, "an added token", members, COUNT(members),
                          "id content single_word lstrip rstrip normalized special ", "", &t) ||
            !tg_token_list_add(j, &lists->added, t.content.at, t.id)) {
            return false;
        }
        if (!tg_grow(&lists->flags, &lists->flag_capacity, count - 1, count, sizeof *lists->flags)) {
            return out_of_memory(j);
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
           (!*suffix || !**suffix || refuse(j, name, "null or \"\"; anything else gives other ids"));
}

static bool read_model(tg_json *j, const tg_json_text *name, void *out)
{
    static const member members[] = {
        {"type", read_model_type, 0}, /* old files have none */
        {"dropout", must_be_null, 0},
        {"unk_token", null_or_string, offsetof(reading, model.unknown)},
        {"continuing_subword_prefix", read_prefix, 0},
        {"end_of_word_suffix", must_be_empty, 0},
        {"fuse_unk", null_or_bool, offsetof(reading, model.fuses_unknown)},
        {"byte_fallback", null_or_bool, offsetof(reading, model.has_byte_fallback)},
        {"ignore_merges", null_or_bool, offsetof(reading, model.ignores_merges)},
        {"max_input_chars_per_word", read_number, offsetof(reading, model.most_characters)},
        {"vocab", read_vocab, 0},
        {"merges", read_merges, 0},
    };
    reading *r = out;
    tg_model *m = &r->model;
    object o = {name->text, members, COUNT(members), r, 0, 0};
    if (!read_object(j, &o)) {
        return false;
    }
    const char *type = r->model_type.text ? r->model_type.text : "BPE";
    if (strcmp(type, "WordPiece") == 0) {
        m->kind = TG_MODEL_WORD_PIECE;
        return check_members(j, &o, "type unk_token continuing_subword_prefix max_input_chars_per_word vocab ", "");
    }
    if (strcmp(type, "BPE") != 0) {
        return tg_json_fail(j, r->model_type.at, "the model \"%.*s\" is not supported; it must be BPE or WordPiece",
                            TG_CUT(type, 60));
    }
    if (m->prefix && m->prefix[0]) {
        return tg_json_fail(j, r->prefix_at,
                            "\"continuing_subword_prefix\" must be null or \"\"; anything else gives other ids");
    }
    return check_members(j, &o, "vocab merges ",
                         "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback "
                         "ignore_merges ");
}

bool tg_tokenizer_json_read(tg_vocabulary *v, tg_json *j, tg_vocabulary_lists *lists)
{
    static const member members[] = {
        {"version", must_be_version, 0},        {"truncation", read_truncation, 0}, {"padding", read_padding, 0},
        {"added_tokens", read_added_tokens, 0}, {"normalizer", read_list, 0},       {"pre_tokenizer", read_list, 0},
        {"post_processor", read_list, 0},       {"decoder", read_list, 0},          {"model", read_model, 0},
    };
    reading r = {.v = v, .lists = lists, .model = {.unknown_id = -1}};
    bool is_read =
        read_members(j, "the file", members, COUNT(members), "model ",
                     "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder ", &r);
    tg_free(r.suffix);
    v->z->model = r.model;
    return is_read;
}

bool tg_pre_tokenizer_json_read(tg_tokenizer *z, tg_json *j)
{
    component c = {.list = TG_PRE_TOKENIZERS, .stages = &z->lists[TG_PRE_TOKENIZERS]};
    return keep_setting(j, &z->settings[TG_PRE_TOKENIZERS]) && read_component(j, &c);
}
