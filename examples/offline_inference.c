/* The first example: one prompt, one answer.
 *
 *     build/examples/offline_inference MODEL_DIR [PROMPT]
 */
#include <stdio.h>

#include "deepinfer/deepinfer.h"

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, di_last_error());
    return 1;
}

/* Prints the text as it comes. */
static bool print_piece(void *user, const di_output *output)
{
    (void)user;
    fwrite(output->text, 1, output->text_bytes, stdout);
    fflush(stdout);
    return true;
}

static int generate(di_engine *engine, di_model *model, const char *prompt)
{
    di_request request = DI_REQUEST_INIT;
    request.text = prompt;
    di_model_sampling_defaults(model, &request.sampling);
    request.sampling.max_tokens = 64;
    request.sampling.has_seed = true;
    request.sampling.seed = 1;

    di_result *result;
    if (di_generate(engine, &request, print_piece, NULL, &result) != DI_OK)
        return fail("generate");
    printf("\n[%zu + %zu tokens, %s, %.1f tokens/s]\n", result->n_prompt_token_ids,
           result->n_token_ids, di_finish_reason_name(result->finish_reason),
           result->tokens_per_second);
    di_result_free(result);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL_DIR [PROMPT]\n", argv[0]);
        return 2;
    }
    di_model *model;
    di_engine *engine;
    if (di_model_open(argv[1], NULL, &model) != DI_OK)
        return fail("model");
    if (di_engine_create(model, NULL, &engine) != DI_OK) {
        di_model_close(model);
        return fail("engine");
    }
    const int status = generate(engine, model, argc > 2 ? argv[2] : "Once upon a time");
    di_engine_destroy(engine);
    di_model_close(model);
    return status;
}
