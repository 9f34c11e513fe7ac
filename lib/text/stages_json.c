/* stages_json: the stages of a tokenizer.json, {"type": ..} or a Sequence of them. The members of all kinds of stages
 * are in one table, because the type may stand behind them; each kind says which ones it has. */
#include <stdio.h>
#include <string.h>

#include "text/json_members.h"
#include "text/vocabulary_json.h"

static bool read_behavior(tg_json *j, const tg_json_text *name, void *out)
{
    static const char *const choices[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    return tg_read_choice(j, name, out, choices, 5,
                          "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

static bool read_individual(tg_json *j, const tg_json_text *name, void *out)
{
    bool is_individual;
    bool is_read = tg_read_bool(j, name, &is_individual);
    *(int *)out = is_individual ? TG_ISOLATED : TG_CONTIGUOUS;
    return is_read;
}

static bool read_scheme(tg_json *j, const tg_json_text *name, void *out)
{
    static const char *const choices[] = {"always", "first", "never"};
    return tg_read_choice(j, name, out, choices, 3, "always, first or never");
}

static bool read_character(tg_json *j, const tg_json_text *name, void *out)
{
    char *const *text = out;
    return tg_read_string(j, name, out) && (((*text)[0] && (*text)[tg_character_size((*text)[0])] == '\0') ||
                                            tg_member_refuse(j, name, "one character"));
}

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
    size_t special_at;             /* the name of the special token that is read */
} component;

const char *const tg_setting_names[TG_SETTINGS] = {"normalizer", "pre_tokenizer", "post_processor",
                                                   "decoder",    "padding",       "truncation"};

static bool read_type(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    return tg_json_string(j, &((component *)out)->type);
}

static bool read_literal(tg_json *j, const tg_json_text *name, void *out)
{
    ((tg_stage *)out)->is_literal = true;
    return tg_read_string(j, name, &((tg_stage *)out)->text);
}

static bool read_pattern(tg_json *j, const tg_json_text *name, void *out)
{
    static const tg_member members[] = {{"Regex", tg_read_string, offsetof(tg_stage, text), TG_VALUE},
                                        {"String", read_literal, 0, TG_VALUE}};
    (void)name;
    tg_members o = {"pattern", members, TG_COUNT_OF(members), &((component *)out)->stage, 0, 0};
    return tg_members_read_all(j, &o) &&
           (o.given == 1 || o.given == 2 || tg_member_refuse(j, name, "a Regex or a String"));
}

static bool read_prefix_space(tg_json *j, const tg_json_text *name, void *out)
{
    component *c = out;
    c->has_old_space = true;
    bool is_read = tg_read_bool(j, name, &c->old_space);
    c->stage.adds_prefix_space = c->old_space;
    return is_read;
}

static bool read_strip_accents(tg_json *j, const tg_json_text *name, void *out)
{
    tg_stage *s = &((component *)out)->stage;
    s->has_strips_accents = true;
    return tg_read_bool(j, name, &s->strips_accents);
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
    static const tg_member members[] = {{"id", read_template_name, 0, TG_VALUE},
                                        {"type_id", tg_read_past, 0, TG_VALUE}};
    return tg_members_read(j, name->text, members, TG_COUNT_OF(members), "id type_id ", "", out);
}

/* Reads a part of a template: {"Sequence": ...} or {"SpecialToken": ...}. */
static bool read_template_part(tg_json *j, const tg_json_text *name, void *out)
{
    static const tg_member members[] = {{"Sequence", read_template_id, 0, TG_VALUE},
                                        {"SpecialToken", read_template_id, sizeof(size_t), TG_VALUE}};
    size_t at[2];
    tg_members o = {"a part of the template", members, TG_COUNT_OF(members), at, 0, 0};
    return tg_members_read_all(j, &o) &&
           (o.given == 1 || o.given == 2 || tg_member_refuse(j, name, "a list of Sequence and SpecialToken")) &&
           tg_token_list_add(j, &((component *)out)->single, at[o.given - 1], o.given == 1);
}

static bool read_special_id(tg_json *j, const tg_json_text *name, void *out)
{
    component *c = out;
    int64_t id;
    (void)name;
    return tg_json_uint(j, &id) && tg_token_list_add(j, &c->ids, c->special_at, id);
}

static bool read_special_tokens(tg_json *j, const tg_json_text *name, void *out)
{
    static const tg_member members[] = {{"id", tg_read_past, 0, TG_VALUE},
                                        {"ids", read_special_id, 0, TG_VALUES},
                                        {"tokens", tg_read_past, 0, TG_VALUE}};
    size_t count = 0;
    tg_json_text key;
    (void)name;
    if (!tg_json_begin(j, '{')) {
        return false;
    }
    while (tg_json_key(j, &count, &key)) {
        ((component *)out)->special_at = key.at;
        if (!tg_members_read(j, "a special token", members, TG_COUNT_OF(members), "id ids tokens ", "", out)) {
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
        return tg_member_no_memory(j);
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

static bool read_part(tg_json *j, const tg_json_text *name, void *out);

static const tg_member stage_members[] = {
    {"type", read_type, 0, TG_VALUE},
    {"normalizers", read_part, 0, TG_VALUES},
    {"pretokenizers", read_part, 0, TG_VALUES},
    {"processors", read_part, 0, TG_VALUES},
    {"decoders", read_part, 0, TG_VALUES},
    {"add_prefix_space", read_prefix_space, 0, TG_VALUE},
    {"trim_offsets", tg_read_bool, offsetof(component, stage.trims_offsets), TG_VALUE},
    {"use_regex", tg_read_bool, offsetof(component, stage.uses_regex), TG_VALUE},
    {"pattern", read_pattern, 0, TG_VALUE},
    {"behavior", read_behavior, offsetof(component, stage.behavior), TG_VALUE},
    {"invert", tg_read_bool, offsetof(component, stage.is_inverted), TG_VALUE},
    {"individual_digits", read_individual, offsetof(component, stage.behavior), TG_VALUE},
    {"replacement", read_character, offsetof(component, stage.content), TG_VALUE},
    {"prepend_scheme", read_scheme, offsetof(component, stage.scheme), TG_VALUE},
    {"split", tg_read_bool, offsetof(component, stage.splits), TG_VALUE},
    {"content", tg_read_string, offsetof(component, stage.content), TG_VALUE},
    {"prepend", tg_read_string, offsetof(component, stage.content), TG_VALUE},
    {"prefix", tg_read_string, offsetof(component, stage.content), TG_VALUE},
    {"clean_text", tg_read_bool, offsetof(component, stage.cleans), TG_VALUE},
    {"handle_chinese_chars", tg_read_bool, offsetof(component, stage.separates_chinese), TG_VALUE},
    {"strip_accents", read_strip_accents, 0, TG_VALUE_OR_NULL},
    {"lowercase", tg_read_bool, offsetof(component, stage.lowers), TG_VALUE},
    {"cleanup", tg_read_bool, offsetof(component, stage.cleans_up), TG_VALUE},
    {"start", tg_read_number, offsetof(component, stage.start), TG_VALUE},
    {"stop", tg_read_number, offsetof(component, stage.stop), TG_VALUE},
    {"single", read_template_part, 0, TG_VALUES},
    {"pair", tg_read_past, 0, TG_VALUE},
    {"special_tokens", read_special_tokens, 0, TG_VALUE},
};

static bool read_component(tg_json *j, component *c);

static bool read_part(tg_json *j, const tg_json_text *name, void *out)
{
    const component *sequence = out;
    component part = {.list = sequence->list, .stages = sequence->stages, .is_part = true};
    return sequence->is_part ? tg_json_fail(j, name->at, "a part of a Sequence has parts of its own")
                             : read_component(j, &part);
}

/* Returns the kind of a stage that has been read, NULL after an error. */
static const tg_stage_kind *kind_of(tg_json *j, const component *c)
{
    static const tg_stage_kind *const kinds[TG_LISTS] = {tg_normalizer_kinds, tg_pre_tokenizer_kinds,
                                                         tg_post_processor_kinds, tg_decoder_kinds};
    for (const tg_stage_kind *kind = kinds[c->list]; kind->name; kind++) {
        if (strcmp(kind->name, c->type.text) == 0) {
            return kind;
        }
    }
    tg_json_fail(j, c->type.at, "the type \"%.*s\" of a %s is not supported%s", TG_CUT(c->type.text, 60),
                 tg_setting_names[c->list], c->list == TG_NORMALIZERS ? TG_WITHOUT_UTF8PROC : "");
    return NULL;
}

/* Checks the members of a stage, and adds it to its list. */
static bool finish_component(tg_json *j, component *c, tg_members *o)
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
    snprintf(what, sizeof what, "the %s \"%s\"", tg_setting_names[c->list], kind->name);
    snprintf(required, sizeof required, "type %s", kind->required);
    o->what = what;
    if (!tg_members_check(j, o, required, kind->optional)) {
        return false;
    }
    if (strcmp(kind->name, "Sequence") == 0) {
        return true;
    }
    if (c->list != TG_POST_PROCESSORS && c->has_old_space && tg_names_have(kind->required, "replacement") &&
        !c->old_space) {
        c->stage.scheme = TG_NEVER; /* as files before tokenizers 0.15 have it */
    }
    if (tg_names_have(kind->required, "start") && !c->stage.content[0]) {
        return tg_json_fail(j, o->start, "the content of a Strip is empty");
    }
    if (c->single.count > 0 && !finish_template(j, c)) {
        return false;
    }
    if (c->stages->count == TG_MOST_STAGES) {
        return tg_json_fail(j, o->start, "the number of stages of a %s is above %d", tg_setting_names[c->list],
                            TG_MOST_STAGES);
    }
    c->stage.kind = kind;
    c->stage.behavior = kind->option ? kind->option : c->stage.behavior;
    c->stages->stages[c->stages->count++] = c->stage;
    c->stage = (tg_stage){0};
    return true;
}

static bool read_component(tg_json *j, component *c)
{
    tg_members o = {tg_setting_names[c->list], stage_members, TG_COUNT_OF(stage_members), c, 0, 0};
    c->stage.trims_offsets = c->stage.uses_regex = c->stage.splits = true;
    bool is_read = tg_members_read_all(j, &o) && finish_component(j, c, &o);
    tg_free(c->stage.text);
    tg_free(c->stage.content);
    tg_free(c->stage.ids);
    tg_free(c->single.tokens);
    tg_free(c->ids.tokens);
    return is_read;
}

bool tg_stages_json_read(tg_json *j, tg_list list, tg_stages *stages)
{
    component c = {.list = list, .stages = stages};
    return read_component(j, &c);
}
