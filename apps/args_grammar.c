#include "args_grammar.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    KEY_REGEX = 0x700,
    KEY_SCHEMA,
    KEY_EBNF,
    KEY_TOOL_CALLS,
    KEY_TOOL_CHOICE,
    KEY_ONE_CALL,
    KEY_ROOT,
    KEY_STRICT,
    KEY_ANY_ORDER,
    KEY_WHITESPACE,
    KEY_FIXED,
    KEY_INDENT,
    KEY_ITEM,
    KEY_KEY,
    KEY_LENIENT
};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "Structured output (each SCHEMA a file, @FILE or the text itself):", 0},
    {"regex", KEY_REGEX, "PATTERN", 0, "the answer matches a regular expression", 0},
    {"json-schema", KEY_SCHEMA, "SCHEMA", 0, "the answer is JSON of a JSON Schema", 0},
    {"ebnf", KEY_EBNF, "GRAMMAR", 0, "the answer is of a grammar in EBNF (GBNF)", 0},
    {"tool-calls", KEY_TOOL_CALLS, "TOOLS", 0,
     "the answer is calls of tools in the chat format: a JSON array of them, or an object with "
     "tools, tool_choice and parallel_tool_calls",
     0},
    {"tool-choice", KEY_TOOL_CHOICE, "NAME|required", 0,
     "the answer is calls of this tool, or of any: of those of --tool-calls, else of \"tools\" in "
     "the chat of --messages",
     0},
    {"one-call", KEY_ONE_CALL, NULL, 0, "the same, exactly one call", 0},
    {"root", KEY_ROOT, "RULE", 0, "rule of the grammar to start with (default root)", 0},
    {"strict", KEY_STRICT, NULL, 0, "JSON: no members that the schema does not name", 0},
    {"any-order", KEY_ANY_ORDER, NULL, 0, "JSON: members in any order", 0},
    {"max-whitespace", KEY_WHITESPACE, "N|none", 0,
     "JSON: most characters of whitespace in a row (default 32)", 0},
    {"fixed-layout", KEY_FIXED, NULL, 0, "JSON: whitespace only as --indent and the separators say",
     0},
    {"indent", KEY_INDENT, "N", 0, "JSON: a member a line, N spaces a level; a fixed layout", 0},
    {"item-separator", KEY_ITEM, "TEXT", 0, "JSON: between members, \",\" and white space", 0},
    {"key-separator", KEY_KEY, "TEXT", 0, "JSON: after keys, \":\" and white space", 0},
    {"lenient", KEY_LENIENT, NULL, 0, "JSON: leave out keywords that cannot be enforced", 0},
    {NULL},
};

di_exit di_grammar_text(const char *arg, char **text, size_t *bytes)
{
    struct stat info;
    const bool is_named = arg[0] == '@';
    if (is_named || (stat(arg, &info) == 0 && S_ISREG(info.st_mode)))
        return di_app_read_file(is_named ? arg + 1 : arg, text, bytes);
    *bytes = strlen(arg);
    *text = di_app_alloc(*bytes + 1);
    memcpy(*text, arg, *bytes + 1);
    return DI_EXIT_OK;
}

static error_t set_schema(di_grammar_args *args, struct argp_state *state, const char *option,
                          di_schema_type type, const char *arg)
{
    if (args->option != NULL)
        return di_args_bad(state, "both %s and %s: wanted one of them", args->option, option);
    args->option = option;
    args->so.schema_type = type;
    if (di_grammar_text(arg, &args->schema, &args->so.schema_bytes) != DI_EXIT_OK)
        return di_args_bad(state, "%s: cannot read '%s'", option, arg);
    /* A pattern in a file ends before the line does. */
    size_t *n = &args->so.schema_bytes;
    if (type == DI_SCHEMA_REGEX && *n > 0 && args->schema[*n - 1] == '\n')
        args->schema[--*n] = '\0';
    args->so.schema = args->schema;
    return *n > 0 ? 0 : di_args_bad(state, "%s: found an empty text", option);
}

/* tools: an array of them, or an object that has one. */
static char *tool_request(const di_grammar_args *args, const char *tools, size_t bytes)
{
    di_json_slice slice = {tools, bytes};
    if (tools[strspn(tools, " \t\r\n")] != '[' && !di_json_member(tools, bytes, "tools", &slice))
        return NULL;
    const bool is_named = args->tool_choice != NULL && strcmp(args->tool_choice, "required") != 0;
    json_t *choice = is_named ? json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name",
                                          args->tool_choice)
                              : json_string("required");
    char *text = json_dumps(choice, JSON_ENCODE_ANY);
    char *request = di_app_text(
        "{\"tools\": %.*s, \"tool_choice\": %s, \"parallel_tool_calls\": %s}", (int)slice.bytes,
        slice.text, text != NULL ? text : "null", args->is_one_call ? "false" : "true");
    free(text);
    json_decref(choice);
    return request;
}

static bool has_choice(const di_grammar_args *args)
{
    return args->tool_choice != NULL || args->is_one_call;
}

bool di_grammar_wants_own_tools(const di_grammar_args *args)
{
    return has_choice(args) && args->option == NULL;
}

char *di_grammar_own_tools(const di_grammar_args *args, const char *chat)
{
    return chat == NULL ? NULL : tool_request(args, chat, strlen(chat));
}

/* The choice among tools that the command line gives. */
static error_t apply_choice(di_grammar_args *args, struct argp_state *state)
{
    const char *option = args->tool_choice != NULL ? "--tool-choice" : "--one-call";
    if (!has_choice(args) || args->option == NULL)
        return 0;
    if (args->so.schema_type != DI_SCHEMA_TOOL_CALLS)
        return di_args_bad(state, "both %s and %s: wanted one of them", args->option, option);
    char *request = tool_request(args, args->schema, args->so.schema_bytes);
    if (request == NULL)
        return di_args_bad(state, "--tool-calls: found no \"tools\" for %s", option);
    free(args->schema);
    args->so.schema = args->schema = request;
    args->so.schema_bytes = strlen(request);
    return 0;
}

static error_t set_number(di_grammar_args *args, struct argp_state *state, int key, const char *arg)
{
    int64_t value = -1;
    if (key == KEY_WHITESPACE && strcmp(arg, "none") != 0) {
        const error_t error = di_args_i64(state, "--max-whitespace", arg, 0, 1000000, &value);
        if (error != 0)
            return error;
    }
    if (key == KEY_INDENT) {
        const error_t error = di_args_i64(state, "--indent", arg, 0, 32, &value);
        if (error != 0)
            return error;
        args->so.is_fixed_layout = true;
        args->so.indent = (int32_t)value;
        return 0;
    }
    args->so.max_whitespace = (int32_t)value;
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    di_grammar_args *args = state->input;
    switch (key) {
    case KEY_REGEX:
        return set_schema(args, state, "--regex", DI_SCHEMA_REGEX, arg);
    case KEY_SCHEMA:
        return set_schema(args, state, "--json-schema", DI_SCHEMA_JSON, arg);
    case KEY_EBNF:
        return set_schema(args, state, "--ebnf", DI_SCHEMA_EBNF, arg);
    case KEY_TOOL_CALLS:
        return set_schema(args, state, "--tool-calls", DI_SCHEMA_TOOL_CALLS, arg);
    case KEY_TOOL_CHOICE:
        args->tool_choice = arg;
        return 0;
    case KEY_ONE_CALL:
        args->is_one_call = true;
        return 0;
    case ARGP_KEY_END:
        return apply_choice(args, state);
    case KEY_ROOT:
        args->so.root = arg;
        return 0;
    case KEY_STRICT:
        args->so.is_strict = true;
        return 0;
    case KEY_ANY_ORDER:
        args->so.any_order = true;
        return 0;
    case KEY_FIXED:
        args->so.is_fixed_layout = true;
        return 0;
    case KEY_ITEM:
        args->so.item_separator = arg;
        return 0;
    case KEY_KEY:
        args->so.key_separator = arg;
        return 0;
    case KEY_LENIENT:
        args->so.lenient = true;
        return 0;
    case KEY_WHITESPACE:
    case KEY_INDENT:
        return set_number(args, state, key, arg);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp di_grammar_argp = {.options = options, .parser = parse};

void di_grammar_args_free(di_grammar_args *args)
{
    free(args->schema);
    args->schema = NULL;
}
