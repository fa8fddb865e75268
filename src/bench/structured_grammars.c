#include "bench/structured.h"

/* A JSON value, character by character: nothing of it is known to any engine as JSON. */
static const char json_ebnf[] =
    "root ::= value\n"
    "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" ws (member (\",\" ws member)*)? \"}\" ws\n"
    "member ::= string \":\" ws value\n"
    "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
    "string ::= \"\\\"\" char* \"\\\"\" ws\n"
    "char ::= [^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" hex hex hex hex)\n"
    "hex ::= [0-9a-fA-F]\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)? ws\n"
    "ws ::= [ \\t\\n]*\n";

static const char arithmetic_ebnf[] = "root ::= sum\n"
                                      "sum ::= sum (\"+\" | \"-\") product | product\n"
                                      "product ::= product (\"*\" | \"/\") atom | atom\n"
                                      "atom ::= [0-9]+ | [a-z] [a-z0-9_]* | \"(\" sum \")\"\n";

static const char weather_schema[] =
    "{\"type\":\"object\",\"properties\":{\"location\":{\"type\":\"string\",\"minLength\":1},"
    "\"unit\":{\"enum\":[\"celsius\",\"fahrenheit\"]},\"days\":{\"type\":\"integer\",\"minimum\":1,"
    "\"maximum\":14}},\"required\":[\"location\",\"unit\"],\"additionalProperties\":false}";

static const char order_schema[] =
    "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\",\"format\":\"uuid\"},"
    "\"created\":{\"type\":\"string\",\"format\":\"date-time\"},\"customer\":{\"type\":\"object\","
    "\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":80},\"email\":{\"type\":"
    "\"string\","
    "\"format\":\"email\"}},\"required\":[\"name\"]},\"items\":{\"type\":\"array\",\"minItems\":1,"
    "\"maxItems\":100,\"items\":{\"type\":\"object\",\"properties\":{\"sku\":{\"type\":\"string\","
    "\"pattern\":\"^[A-Z]{2}-[0-9]{4,8}$\"},\"count\":{\"type\":\"integer\",\"minimum\":1},"
    "\"price\":{\"type\":\"number\",\"minimum\":0,\"maximum\":100000}},\"required\":[\"sku\","
    "\"count\"],\"additionalProperties\":false}},\"note\":{\"type\":[\"string\",\"null\"]}},"
    "\"required\":[\"id\",\"items\"]}";

static const char tree_schema[] =
    "{\"$ref\":\"#/$defs/node\",\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"name\":{"
    "\"type\":\"string\"},\"children\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/node\"}}},"
    "\"required\":[\"name\"],\"additionalProperties\":false}}}";

static const char shapes_schema[] =
    "{\"type\":\"array\",\"items\":{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"kind\":{"
    "\"const\":\"circle\"},\"radius\":{\"type\":\"number\",\"exclusiveMinimum\":0}},\"required\":["
    "\"kind\",\"radius\"]},{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"rectangle\"},"
    "\"width\":{\"type\":\"number\"},\"height\":{\"type\":\"number\"}},\"required\":[\"kind\","
    "\"width\",\"height\"]},{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"polygon\"},"
    "\"points\":{\"type\":\"array\",\"minItems\":3,\"items\":{\"type\":\"array\",\"prefixItems\":[{"
    "\"type\":\"number\"},{\"type\":\"number\"}],\"minItems\":2,\"items\":false}}},\"required\":["
    "\"kind\",\"points\"]}]}}";

static const char map_schema[] =
    "{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"boolean\"},\"^[a-z_]+$\":{"
    "\"type\":\"array\",\"items\":{\"type\":\"integer\"}}},\"additionalProperties\":{\"type\":"
    "\"string\"},\"maxProperties\":20}";

const di_bench_grammar di_bench_grammars[] = {
    {"regex date",
     DI_SCHEMA_REGEX,
     "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
     {"2024-01-31", "1999-12-05"}},
    {"regex address",
     DI_SCHEMA_REGEX,
     "[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\\.[A-Za-z]{2,})+",
     {"fox.red@den-4.example.org"}},
    {"regex counted text",
     DI_SCHEMA_REGEX,
     "Answer: .{1,2000}\\nConfidence: (low|medium|high)",
     {"Answer: The fox sleeps in its den until the evening comes.\nConfidence: high"}},
    {"regex csv",
     DI_SCHEMA_REGEX,
     "([^,\\n]*(,[^,\\n]*){3}\\n){1,500}",
     {"name,age,town,note\nAda,36,London,\nAlan,41,Wilmslow,tea\n"}},
    {"schema any value",
     DI_SCHEMA_JSON,
     "{}",
     {"{\"a\": [1, 2.5e3, true, null], \"b\": {\"c\": \"d\\u00e9\\n\"}}", "[]"}},
    {"schema tool call",
     DI_SCHEMA_JSON,
     weather_schema,
     {"{\"location\": \"Oslo\", \"unit\": \"celsius\", \"days\": 3}",
      "{\"location\":\"San Francisco, CA\",\"unit\":\"fahrenheit\"}"}},
    {"schema order",
     DI_SCHEMA_JSON,
     order_schema,
     {"{\"id\": \"123e4567-e89b-42d3-a456-426614174000\", \"created\": \"2024-05-06T07:08:09Z\", "
      "\"customer\": {\"name\": \"Ada\", \"email\": \"ada@example.org\"}, \"items\": [{\"sku\": "
      "\"AB-12345\", \"count\": 2, \"price\": 19.99}, {\"sku\": \"CD-0001\", \"count\": 1}], "
      "\"note\": null}"}},
    {"schema tree",
     DI_SCHEMA_JSON,
     tree_schema,
     {"{\"name\":\"root\",\"children\":[{\"name\":\"left\",\"children\":[]},{\"name\":\"right\"}]"
      "}"}},
    {"schema alternatives",
     DI_SCHEMA_JSON,
     shapes_schema,
     {"[{\"kind\": \"circle\", \"radius\": 1.5}, {\"kind\": \"polygon\", \"points\": [[0, 0], [1, "
      "0], [0, 1]]}, {\"kind\": \"rectangle\", \"width\": 2, \"height\": 3}]"}},
    {"schema map",
     DI_SCHEMA_JSON,
     map_schema,
     {"{\"x-on\": true, \"primes\": [2, 3, 5], \"Title\": \"numbers\", \"squares\": [1, 4, 9]}"}},
    {"ebnf json",
     DI_SCHEMA_EBNF,
     json_ebnf,
     {"{\"a\": [1, 2.5e3, true], \"b\": {\"c\": \"d\\n\"}}"}},
    {"ebnf arithmetic", DI_SCHEMA_EBNF, arithmetic_ebnf, {"(a+12)*b2/(c-3*(d+4))", "x1+x2"}},
};

const size_t di_n_bench_grammars = sizeof di_bench_grammars / sizeof *di_bench_grammars;
