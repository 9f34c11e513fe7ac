/* csv (private): the table of a CSV file. */
#ifndef TG_TOOLS_CSV_H
#define TG_TOOLS_CSV_H

#include <tapegrad/csv.h>

struct tg_csv {
    char *text;
    size_t *fields; /* offsets in text, row after row, the header first */
    int64_t *lines; /* of each row, the number of its first line */
    size_t field_count, field_capacity, line_count, line_capacity;
    int64_t rows;
    int columns;
    bool has_header;
};

#endif
