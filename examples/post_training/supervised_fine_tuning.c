/* supervised_fine_tuning: chats of one to three sums each. Only the tokens of answers are targets (Ouyang et al. 2022),
 * and the others are -100. The chats have different lengths, so several of them are packed into a row (Krell et al.
 * 2021): the positions of each begin at 0, and its first key is its own first token, so that no text sees another.
 * Prints the loss of the same chats with a row for each, packed, and packed without first keys: the first two are
 * equal. Then it trains on packed chats, and prints the losses, and the right answers before and after. */
#include "post_training.h"

#include <string.h>

const char program_name[] = "post_training_supervised_fine_tuning";

enum { WIDTH = 32, LAYERS = 2, CHATS = 16, TURNS = 3, TURN = QUESTION + ANSWER + 1, ROW = 4 * TURN };
enum { STEPS = 300, SHOWN = 75 };
static const double RATE = 0.003;

/* The tokens of a chat, and the targets of its answers. */
typedef struct text {
    int32_t ids[TURNS * TURN], targets[TURNS * TURN];
    int64_t count;
} text;

static text write_chat(recipe *r, const sum *sums, int64_t turns)
{
    char contents[2 * TURNS][8];
    tg_gpt_message messages[2 * TURNS];
    for (int64_t i = 0; i < turns; i++) {
        snprintf(contents[2 * i], sizeof contents[0], "%d+%d", sums[i].a, sums[i].b);
        snprintf(contents[2 * i + 1], sizeof contents[0], "%02d", sums[i].a + sums[i].b);
        messages[2 * i] = (tg_gpt_message){"user", contents[2 * i]};
        messages[2 * i + 1] = (tg_gpt_message){"assistant", contents[2 * i + 1]};
    }
    tg_gpt_chat_config config = tg_gpt_chat_config_default();
    config.begins_answer = false;
    char *written = tg_gpt_chat(messages, 2 * turns, &config, &r->error);
    recipe_check(r);
    text x = {.count = encode(written, x.ids, TURNS * TURN)};
    tg_text_free(written);
    /* an answer begins behind the newline after its role, and ends with END */
    bool is_answer = false;
    for (int64_t i = 0; i < x.count; i++) {
        is_answer = is_answer ? x.ids[i] != END : i > 0 && x.ids[i - 1] == ASSISTANT;
        x.targets[i] = is_answer ? x.ids[i + 1] : NO_TARGET;
    }
    return x;
}

static void draw_chats(recipe *r, text *texts)
{
    sum sums[CHATS * TURNS];
    draw_sums(r, sums, CHATS * TURNS);
    tg_tensor *turns = tg_full(r->tape, TG_I32, TG_SHAPE(CHATS), 0);
    tg_tensor_fill_randint(turns, tg_run_rng(r->run), 1, TURNS + 1, &r->error);
    for (int64_t i = 0; i < CHATS; i++) {
        texts[i] = write_chat(r, sums + i * TURNS, (int64_t)tg_tensor_value_at(turns, i));
    }
}

/* Rows of texts, (rows,ROW) each. */
typedef struct pack {
    tg_tensor *ids, *targets, *positions, *first_keys;
    int64_t rows;
} pack;

/* Packs each text behind the one before if the row has space for it. `texts_of_row` is the most texts of a row. The
 * rest of a row is a text without targets. */
static pack pack_texts(tg_tape *t, const text *texts, int texts_of_row)
{
    int32_t ids[CHATS][ROW], targets[CHATS][ROW], positions[CHATS][ROW], first_keys[CHATS][ROW];
    int64_t row = -1, used = ROW;
    for (int i = 0, in_row = 0; i < CHATS; i++, in_row++) {
        if (used + texts[i].count > ROW || in_row == texts_of_row) {
            row++;
            used = in_row = 0;
        }
        /* the text and the rest of the row, which the next text may overwrite */
        for (int64_t k = used; k < ROW; k++) {
            bool is_rest = k - used >= texts[i].count;
            ids[row][k] = is_rest ? END : texts[i].ids[k - used];
            targets[row][k] = is_rest ? NO_TARGET : texts[i].targets[k - used];
            positions[row][k] = (int32_t)(k - used);
            first_keys[row][k] = (int32_t)used;
        }
        used += texts[i].count;
    }
    tg_shape shape = TG_SHAPE(row + 1, ROW);
    return (pack){tg_constant_i32(t, shape, ids[0]), tg_constant_i32(t, shape, targets[0]),
                  tg_constant_i32(t, shape, positions[0]), tg_constant_i32(t, shape, first_keys[0]), row + 1};
}

static tg_tensor *loss_of(tg_tape *t, const decoder *d, const pack *p, bool has_first_keys)
{
    tg_gpt_forward_config config = tg_gpt_forward_config_default();
    config.positions = p->positions;
    config.first_keys = has_first_keys ? p->first_keys : NULL;
    return tg_gpt_loss(t, d->model, p->ids, p->targets, &config);
}

int main(int argc, char **argv)
{
    recipe_options("learns the answers of packed chats", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    decoder d = decoder_make(&r, VOCABULARY, WIDTH, LAYERS);
    text texts[CHATS];
    draw_chats(&r, texts);
    pack apart = pack_texts(t, texts, 1), packed = pack_texts(t, texts, CHATS);
    printf("%lld rows: loss %.6f\n", (long long)apart.rows, item(&r, loss_of(t, &d, &apart, true)));
    printf("%lld rows: loss %.6f, if texts see those before %.6f\n", (long long)packed.rows,
           item(&r, loss_of(t, &d, &packed, true)), item(&r, loss_of(t, &d, &packed, false)));

    printf("%d of %d sums right before\n", count_right(&r, &d, 2), SUMS);
    train_by_adam(&r, &d, RATE);
    for (int step = 1; step <= STEPS; step++) {
        tg_tape_reset(t);
        draw_chats(&r, texts);
        packed = pack_texts(t, texts, CHATS);
        tg_tensor *loss = loss_of(t, &d, &packed, true);
        step_down(&r, &d, loss);
        if (step % SHOWN == 0) {
            printf("step %d: %lld rows, loss %.3f\n", step, (long long)packed.rows, item(&r, loss));
        }
    }
    printf("%d of %d sums right after\n", count_right(&r, &d, 2), SUMS);
    decoder_free(&d);
    return recipe_end(&r);
}
