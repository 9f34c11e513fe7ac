/* json_members: objects by tables of their members, and the values of these. */
#include "text/json_members.h"

#include <string.h>

static bool read_value(tg_json *j, const tg_member *member, const tg_json_text *name, void *out)
{
    size_t count = 0;
    if (member->form != TG_VALUES) {
        return (member->form == TG_VALUE_OR_NULL && tg_json_word(j, "null")) || member->read(j, name, out);
    }
    if (!tg_json_begin(j, '[')) {
        return false;
    }
    while (tg_json_more(j, ']', &count)) {
        if (!member->read(j, name, out)) {
            return false;
        }
    }
    return !j->failed;
}

bool tg_members_read_all(tg_json *j, tg_members *o)
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
        if (!read_value(j, &o->members[k], &name, (char *)o->out + o->members[k].offset)) {
            return false;
        }
    }
    return !j->failed;
}

bool tg_names_have(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names; *at; at = strchr(at, ' ') + 1) {
        if (strncmp(at, name, length) == 0 && at[length] == ' ') {
            return true;
        }
    }
    return false;
}

bool tg_members_check(tg_json *j, const tg_members *o, const char *required, const char *optional)
{
    for (size_t k = 0; k < o->count; k++) {
        const char *name = o->members[k].name;
        bool is_required = tg_names_have(required, name), is_given = o->given >> k & 1;
        if (is_required && !is_given) {
            return tg_json_fail(j, o->start, "%s has no \"%s\"", o->what, name);
        }
        if (is_given && !is_required && !tg_names_have(optional, name)) {
            return tg_json_fail(j, o->start, "%s has the unknown member \"%s\"", o->what, name);
        }
    }
    return true;
}

bool tg_members_read(tg_json *j, const char *what, const tg_member *members, size_t count, const char *required,
                     const char *optional, void *out)
{
    tg_members o = {what, members, count, out, 0, 0};
    return tg_members_read_all(j, &o) && tg_members_check(j, &o, required, optional);
}

/* ---- values ---- */

bool tg_member_refuse(tg_json *j, const tg_json_text *name, const char *allowed)
{
    return tg_json_fail(j, name->at, "\"%s\" must be %s", name->text, allowed);
}

bool tg_read_bool(tg_json *j, const tg_json_text *name, void *out)
{
    *(bool *)out = tg_json_word(j, "true");
    return *(bool *)out || tg_json_word(j, "false") || tg_member_refuse(j, name, "true or false");
}

bool tg_read_number(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    return tg_json_uint(j, out);
}

bool tg_member_no_memory(tg_json *j)
{
    j->failed = true;
    return tg_error_set(j->error, TG_ERROR_MEMORY, "%s: '%s': out of memory", j->call, j->path);
}

bool tg_read_string(tg_json *j, const tg_json_text *name, void *out)
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
        return tg_member_no_memory(j);
    }
    memcpy(*text, string.text, size);
    return true;
}

bool tg_read_choice(tg_json *j, const tg_json_text *name, int *out, const char *const *choices, int count,
                    const char *allowed)
{
    tg_json_text text;
    if (!tg_json_string(j, &text)) {
        return false;
    }
    for (*out = 0; *out < count && strcmp(text.text, choices[*out]) != 0; ++*out) {
    }
    return *out < count || tg_member_refuse(j, name, allowed);
}

bool tg_read_past(tg_json *j, const tg_json_text *name, void *out)
{
    (void)name;
    (void)out;
    return tg_json_skip(j);
}
