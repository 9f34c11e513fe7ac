/* examples: texts with answers, from JSON lines. A conversation with several answers is several examples, each of which
 * has the messages up to one of them: so that each answer follows what a model will see before it. */
#include <stdlib.h>
#include <string.h>

#include <tapegrad_tools.h>

#include "../common/program.h"
#include "../common/terminal.h"
#include "chat.h"
#include "corpus.h"

typedef struct reader {
    const char *path;
    examples *e;
    int64_t capacity, id_capacity, window, longest;
    tg_tokenizer *bpe;
    chat chat;
} reader;

/* Prints an error of a line. */
static bool refuse(const reader *r, const tg_json_value *line, const char *problem)
{
    return complain("--data %s, line %lld: %s", r->path, (long long)tg_json_value_line(line), problem);
}

/* Makes room for one example of `count` ids. */
static bool reserve(reader *r, int64_t count)
{
    examples *e = r->e;
    int64_t used = e->begins ? e->begins[e->count] : 0;
    if (!e->begins || e->count == r->capacity) {
        r->capacity = 2 * r->capacity + 64;
        int64_t *begins = realloc(e->begins, (size_t)(r->capacity + 1) * sizeof *begins);
        e->begins = begins ? begins : e->begins;
        int64_t *answers = realloc(e->answers, (size_t)r->capacity * sizeof *answers);
        e->answers = answers ? answers : e->answers;
        if (!begins || !answers) {
            return complain("out of memory");
        }
        e->begins[e->count] = used;
    }
    if (used + count > r->id_capacity) {
        r->id_capacity = 2 * (used + count);
        int32_t *ids = realloc(e->ids, (size_t)r->id_capacity * sizeof *ids);
        e->ids = ids ? ids : e->ids;
        return ids || complain("out of memory");
    }
    return true;
}

/* Adds a text whose answer begins at byte `answer`. `is_chat`: the text has its special tokens. */
static bool add_text(reader *r, const tg_json_value *line, const char *text, size_t answer, bool is_chat, bool adds_end)
{
    tg_error error = TG_NO_ERROR;
    tg_encoding found;
    char problem[200];
    tg_tokenizer_encode_config config = tg_tokenizer_encode_config_default();
    config.special = is_chat;
    config.with_template = !is_chat;
    if (!tg_tokenizer_encode_text(r->bpe, text, strlen(text), &found, &config, &error)) {
        return refuse(r, line, error.text);
    }
    int64_t count = found.count, first = 0;
    while (first < count && found.spans[first].begin < (int64_t)answer) {
        first++;
    }
    bool is_good = reserve(r, count + 1);
    if (is_good) {
        examples *e = r->e;
        int32_t *ids = e->ids + e->begins[e->count];
        memcpy(ids, found.ids, (size_t)count * sizeof *ids);
        if (adds_end && r->chat.end >= 0 && (count == 0 || ids[count - 1] != r->chat.end)) {
            ids[count++] = r->chat.end;
        }
        e->answers[e->count++] = first;
        e->begins[e->count] = e->begins[e->count - 1] + count;
    }
    tg_encoding_free(&found);
    if (is_good && (!text[answer] || count < 2 || first >= count)) {
        return refuse(r, line, "the answer is empty");
    }
    snprintf(problem, sizeof problem, "%lld tokens; must be at most %lld, --context and one target", (long long)count,
             (long long)r->window + 1);
    r->longest = count > r->longest ? count : r->longest;
    return is_good && (count <= r->window + 1 || refuse(r, line, problem));
}

/* Adds the conversation of `count` messages, of which the last one is an answer. */
static bool add_chat(reader *r, const tg_json_value *line, const tg_gpt_message *messages, int64_t count)
{
    tg_error error = TG_NO_ERROR;
    size_t answer;
    if (strspn(messages[count - 1].content, " \n\r\t") == strlen(messages[count - 1].content)) {
        return refuse(r, line, "the answer is empty");
    }
    char *text = chat_text(&r->chat, messages, count, &answer, &error);
    bool is_added = text ? add_text(r, line, text, answer, r->chat.has_format, r->chat.adds_end)
                         : refuse(r, line, error.code != TG_OK ? error.text : "out of memory");
    free(text);
    return is_added;
}

/* {"messages": [{"role": .., "content": ..}, ..]} */
static bool add_messages(reader *r, const tg_json_value *line, const tg_json_value *list)
{
    tg_error error = TG_NO_ERROR;
    int64_t count = tg_json_value_count(list), answers = 0;
    tg_gpt_message *messages = calloc((size_t)count + 1, sizeof *messages);
    bool is_good = messages || complain("out of memory");
    for (int64_t i = 0; is_good && i < count; i++) {
        const tg_json_value *message = tg_json_value_at(list, i);
        messages[i].role = tg_json_value_text(tg_json_value_find(message, "role", &error), &error);
        messages[i].content = tg_json_value_text(tg_json_value_find(message, "content", &error), &error);
        is_good = error.code == TG_OK || complain("--data: %s", error.text);
    }
    for (int64_t i = 1; is_good && i < count; i++) {
        if (strcmp(messages[i].role, "assistant") == 0) {
            answers++;
            is_good = add_chat(r, line, messages, i + 1);
        }
    }
    free(messages);
    return is_good && (answers > 0 || refuse(r, line, "the messages have no answer of the assistant"));
}

/* {"instruction": .., "input": .., "output": ..}; the input is optional, and may be empty */
static bool add_instruction(reader *r, const tg_json_value *line, const char *instruction, const char *input,
                            const char *output)
{
    const char *between = !input || !*input ? "" : r->chat.has_format ? "\n\n" : "\n\n### Input:\n";
    size_t size = strlen(instruction) + strlen(between) + (input ? strlen(input) : 0) + 1;
    char *question = malloc(size);
    if (!question) {
        return complain("out of memory");
    }
    snprintf(question, size, "%s%s%s", instruction, between, input ? input : "");
    const tg_gpt_message messages[] = {{"user", question}, {"assistant", output}};
    bool is_added = add_chat(r, line, messages, 2);
    free(question);
    return is_added;
}

/* {"prompt": .., "completion": ..} */
static bool add_completion(reader *r, const tg_json_value *line, const char *prompt, const char *completion)
{
    size_t answer = strlen(prompt), size = answer + strlen(completion) + 1;
    char *text = malloc(size);
    if (!text) {
        return complain("out of memory");
    }
    snprintf(text, size, "%s%s", prompt, completion);
    bool is_added = add_text(r, line, text, answer, false, true);
    free(text);
    return is_added;
}

static bool add_line(reader *r, const tg_json_value *line)
{
    tg_error error = TG_NO_ERROR;
    const tg_json_value *messages = tg_json_value_find(line, "messages", NULL), *input;
    if (messages) {
        return add_messages(r, line, messages);
    }
    const tg_json_value *prompt = tg_json_value_find(line, "prompt", NULL);
    const char *question =
        tg_json_value_text(prompt ? prompt : tg_json_value_find(line, "instruction", &error), &error);
    const char *answer = tg_json_value_text(tg_json_value_find(line, prompt ? "completion" : "output", &error), &error);
    input = tg_json_value_find(line, "input", NULL);
    const char *more = input ? tg_json_value_text(input, &error) : NULL;
    if (error.code != TG_OK) {
        return complain("--data: %s", error.text);
    }
    return prompt ? add_completion(r, line, question, answer) : add_instruction(r, line, question, more, answer);
}

bool corpus_load_examples(corpus *c, const options *o, model *m, tg_tokenizer *bpe)
{
    tg_error error = TG_NO_ERROR;
    *c = (corpus){.bpe = bpe};
    reader r = {.path = o->data, .e = &c->examples, .window = m->window, .bpe = bpe, .chat = chat_of(m->gpt, bpe)};
    tg_json_document *document = tg_json_document_open(o->data, &error);
    const tg_json_value *root = tg_json_document_root(document);
    bool is_loaded = document || complain("--data: %s", error.text);
    for (int64_t i = 0; is_loaded && i < tg_json_value_count(root); i++) {
        is_loaded = add_line(&r, tg_json_value_at(root, i));
    }
    tg_json_document_free(document);
    const examples *e = &c->examples;
    if (!is_loaded || (e->count == 0 && !complain("--data %s: has no examples", o->data))) {
        corpus_free(c);
        return false;
    }
    m->window = r.longest - 1;
    int64_t kept = e->count - e->count / 10, ids = e->begins[e->count];
    c->training = (part){.name = o->data, .examples = e, .count = kept};
    if (kept < e->count) {
        c->validation =
            (part){.name = "validation, the last tenth", .examples = e, .first = kept, .count = e->count - kept};
    }
    snprintf(c->identity, sizeof c->identity, "%lld examples, checksum %016llx", (long long)e->count,
             (unsigned long long)ids_checksum(e->ids, ids));
    print_line(stdout, "%s: %lld examples of %lld tokens", o->data, (long long)e->count, (long long)ids);
    return true;
}

void examples_free(examples *e)
{
    free(e->ids);
    free(e->begins);
    free(e->answers);
    *e = (examples){0};
}

int64_t examples_fill(const examples *e, tg_tape *t, tg_batch *batch)
{
    const int32_t *numbers = tg_tensor_data(batch->inputs);
    size_t rows = (size_t)tg_tensor_count(batch->inputs), columns = 1;
    int64_t counted = 0;
    for (size_t i = 0; i < rows; i++) {
        size_t length = (size_t)(e->begins[numbers[i] + 1] - e->begins[numbers[i]] - 1);
        columns = length > columns ? length : columns;
    }
    tg_shape shape = TG_SHAPE((int64_t)rows, (int64_t)columns);
    int32_t *inputs = calloc(rows, columns * sizeof *inputs), *targets = calloc(rows, columns * sizeof *targets);
    bool is_made = inputs && targets;
    for (size_t i = 0; is_made && i < rows; i++) {
        const int32_t *ids = e->ids + e->begins[numbers[i]];
        size_t length = (size_t)(e->begins[numbers[i] + 1] - e->begins[numbers[i]] - 1);
        for (size_t k = 0; k < columns; k++) {
            bool counts = k < length && (int64_t)k + 1 >= e->answers[numbers[i]];
            /* nothing before it sees padding */
            inputs[i * columns + k] = k < length ? ids[k] : 0;
            targets[i * columns + k] = counts ? ids[k + 1] : -100;
            counted += counts;
        }
    }
    batch->inputs = is_made ? tg_constant_i32(t, shape, inputs) : NULL;
    batch->targets = is_made ? tg_constant_i32(t, shape, targets) : NULL;
    free(inputs);
    free(targets);
    return counted;
}
