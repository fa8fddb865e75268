/* What tests of tool calls share: tools, blocks of calls, checkers. */
#ifndef DI_TEST_TOOL_CALLS_H
#define DI_TEST_TOOL_CALLS_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "deepinfer/tools.h"
#include "dsml.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != DI_OK)                                                                       \
            fail_msg("%s", di_last_error());                                                       \
    } while (0)

#define BLOCK(calls)      "\n\n" CALLS calls "\n" CALLS_END
#define CALL(name, parts) "\n" INVOKE(name) parts "\n" INVOKE_END
#define TOOL(name, schema)                                                                         \
    "{\"type\": \"function\", \"function\": {\"name\": \"" name "\", \"parameters\": " schema "}}"
#define OBJECT(properties, more) "{\"type\": \"object\", \"properties\": {" properties "}" more "}"
#define T(key, value)            PARAMETER(key, "true", value)
#define J(key, value)            PARAMETER(key, "false", value)

#define NOW "{\"type\": \"function\", \"function\": {\"name\": \"now\"}}"

static inline di_so_args args_of(const char *tools)
{
    di_so_args args = DI_SO_ARGS_INIT;
    args.schema_type = DI_SCHEMA_TOOL_CALLS;
    args.schema = tools;
    return args;
}

static inline bool takes(di_checker *checker, const char *text)
{
    bool accepted;
    OK(di_checker_match(checker, text, strlen(text), &accepted));
    return accepted;
}

#endif
