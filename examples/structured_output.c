/* Structured output: an answer that is JSON of a schema.
 *
 *     build/examples/structured_output MODEL_DIR [PROMPT]
 */
#include <stdio.h>

#include "deepinfer/deepinfer.h"

static const char schema[] =
    "{\"type\": \"object\","
    " \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 20},"
    "                  \"age\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 120},"
    "                  \"likes\": {\"type\": \"array\", \"items\": {\"enum\": [\"eggs\", "
    "\"songs\", \"rain\"]},"
    "                             \"minItems\": 1, \"maxItems\": 3}},"
    " \"required\": [\"name\", \"age\", \"likes\"], \"additionalProperties\": false}";

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, di_last_error());
    return 1;
}

static int generate(di_engine *engine, const di_model *model, const char *prompt)
{
    di_so_args so = DI_SO_ARGS_INIT;
    so.schema_type = DI_SCHEMA_JSON;
    so.schema = schema;
    so.max_whitespace = 1;

    di_request request = DI_REQUEST_INIT;
    request.text = prompt;
    request.so_args = &so;
    di_model_sampling_defaults(model, &request.sampling);
    request.sampling.max_tokens = 200;
    request.sampling.has_seed = true;
    request.sampling.seed = 1;

    di_result *result;
    if (di_generate(engine, &request, NULL, NULL, &result) != DI_OK)
        return fail("generate");
    /* DI_FINISH_STOP: the JSON is whole. DI_FINISH_LENGTH: it was cut. */
    printf("%s\n[%s]\n", result->text, di_finish_reason_name(result->finish_reason));
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
    const int status = generate(engine, model, argc > 2 ? argv[2] : "The fox: ");
    di_engine_destroy(engine);
    di_model_close(model);
    return status;
}
