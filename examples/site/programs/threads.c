/* threads: four threads answer questions to one model at the same time, each on a tape of its own. */
#include <pthread.h>
#include <stdio.h>

#include <tapegrad.h>

enum { THREADS = 4 };

typedef struct job {
    const tg_nn_embedding *tokens;
    const tg_nn_linear *head;
    int32_t id, answer;
    tg_error error;
} job;

static void *work(void *argument)
{
    job *j = argument;
    tg_tape *t = tg_tape_new(NULL, NULL);
    /* tapes may share parameters only while recording is off in all of them */
    tg_tape_set_recording(t, false);
    tg_tensor *x = tg_nn_embedding_forward(t, j->tokens, tg_constant_i32(t, TG_SHAPE(1), &j->id));
    tg_tensor *best = tg_argmax(t, tg_nn_linear_forward(t, j->head, x), -1, TG_DROP_AXES);
    j->answer = (int32_t)tg_tensor_item(best, &j->error);
    if (tg_tape_error(t)->code != TG_OK) {
        j->error = *tg_tape_error(t);
    }
    tg_tape_free(t);
    return NULL;
}

int main(void)
{
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding tokens = tg_nn_embedding_make(params, "tok_emb", 6, 8, NULL);
    tg_nn_linear head = tg_nn_linear_make(params, "head", 8, 6, TG_BIAS);
    /* the threads of a single call; four threads of the program with one each are enough */
    tg_set_threads(1, NULL);
    pthread_t threads[THREADS];
    job jobs[THREADS];
    int status = 0;
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){.tokens = &tokens, .head = &head, .id = i, .error = TG_NO_ERROR};
        if (pthread_create(&threads[i], NULL, work, &jobs[i]) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        status |= jobs[i].error.code != TG_OK;
        printf("after token %d: token %d%s\n", jobs[i].id, jobs[i].answer, jobs[i].error.text);
    }
    tg_params_free(params);
    tg_run_free(run);
    return status;
}
