/* json_members (private): reads JSON objects by tables of their members. */
#ifndef TG_TEXT_JSON_MEMBERS_H
#define TG_TEXT_JSON_MEMBERS_H

#include <tapegrad/extend.h>

/* A value is read once; or passed over if it is null; or is a list, each element of which is read. */
typedef enum tg_member_form { TG_VALUE, TG_VALUE_OR_NULL, TG_VALUES } tg_member_form;

typedef struct tg_member {
    const char *name;
    /* reads the value; `name` is where an error is reported */
    bool (*read)(tg_json *j, const tg_json_text *name, void *out);
    size_t offset; /* of the value in what is read */
    tg_member_form form;
} tg_member;

/* An object that is being read. */
typedef struct tg_members {
    const char *what; /* for messages */
    const tg_member *members;
    size_t count;
    void *out;
    size_t start;   /* the position */
    uint32_t given; /* bit k: member k */
} tg_members;

#define TG_COUNT_OF(members) (sizeof(members) / sizeof *(members))

/* Reads an object whose members are in the table. One that is unknown, or given twice, is an error. */
bool tg_members_read_all(tg_json *j, tg_members *o);

/* Returns whether a list of names, each with a space behind it, has a name. */
bool tg_names_have(const char *names, const char *name);

/* Checks that an object has all required members, and only those that are allowed. */
bool tg_members_check(tg_json *j, const tg_members *o, const char *required, const char *optional);

/* Reads an object of one kind: both of these. */
bool tg_members_read(tg_json *j, const char *what, const tg_member *members, size_t count, const char *required,
                     const char *optional, void *out);

/* Set an error about the value of a member, and about memory. Return false. */
bool tg_member_refuse(tg_json *j, const tg_json_text *name, const char *allowed);
bool tg_member_no_memory(tg_json *j);

/* ---- values, for tg_member.read ---- */

bool tg_read_bool(tg_json *j, const tg_json_text *name, void *out);   /* a bool */
bool tg_read_number(tg_json *j, const tg_json_text *name, void *out); /* an int64_t */
bool tg_read_string(tg_json *j, const tg_json_text *name, void *out); /* a char *, in memory of its own */
bool tg_read_past(tg_json *j, const tg_json_text *name, void *out);   /* any value, which is passed over */

/* Reads one of some strings as its index. */
bool tg_read_choice(tg_json *j, const tg_json_text *name, int *out, const char *const *choices, int count,
                    const char *allowed);

#endif
