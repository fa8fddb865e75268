#include "grammar/unicode.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Runs of one category, and code points with a case (pairs of them and what they fold to, in the
 * order of each): made once, about 3,300 and 2,800 entries. */
enum { MAX_RUNS = 1 << 14, MAX_FOLDS = 1 << 13 };

typedef struct category_run {
    uint32_t first : 24, category : 8;
} category_run;

typedef struct fold_pair {
    uint32_t code, folded;
} fold_pair;

static category_run runs[MAX_RUNS + 1];
static size_t n_runs;
static fold_pair by_code[MAX_FOLDS], by_folded[MAX_FOLDS];
static size_t n_folds;
static pthread_once_t runs_once = PTHREAD_ONCE_INIT, folds_once = PTHREAD_ONCE_INIT;

static void make_runs(void)
{
    for (uint32_t code = 0; code <= DI_CODE_LAST; code++) {
        const uint32_t category = (uint32_t)utf8proc_category((utf8proc_int32_t)code);
        if (n_runs > 0 && runs[n_runs - 1].category == category)
            continue;
        if (n_runs == MAX_RUNS) {
            n_runs = 0;
            return;
        }
        runs[n_runs++] = (category_run){.first = code, .category = category};
    }
    runs[n_runs] = (category_run){.first = DI_CODE_LAST + 1};
}

/* Itself if it folds to several. */
static uint32_t fold_of(uint32_t code)
{
    utf8proc_int32_t folded[8];
    int boundary = 0;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)code, folded, 8, UTF8PROC_CASEFOLD, &boundary);
    return n == 1 ? (uint32_t)folded[0] : code;
}

static int compare_codes(const void *a, const void *b)
{
    const fold_pair *x = a, *y = b;
    return (x->code > y->code) - (x->code < y->code);
}

static int compare_folded(const void *a, const void *b)
{
    const fold_pair *x = a, *y = b;
    return x->folded == y->folded ? compare_codes(a, b) : x->folded < y->folded ? -1 : 1;
}

static bool add_fold(uint32_t code, uint32_t folded)
{
    if (n_folds == MAX_FOLDS)
        return false;
    by_code[n_folds++] = (fold_pair){.code = code, .folded = folded};
    return true;
}

static void make_folds(void)
{
    for (uint32_t code = 0; code <= DI_CODE_LAST; code++) {
        const uint32_t folded = fold_of(code);
        if (folded == code)
            continue;
        if (!add_fold(code, folded) || !add_fold(folded, folded)) {
            n_folds = 0;
            return;
        }
    }
    qsort(by_code, n_folds, sizeof *by_code, compare_codes);
    size_t n = 0;
    for (size_t i = 0; i < n_folds; i++) /* several may fold to one */
        if (n == 0 || by_code[n - 1].code != by_code[i].code)
            by_code[n++] = by_code[i];
    n_folds = n;
    memcpy(by_folded, by_code, n * sizeof *by_code);
    qsort(by_folded, n, sizeof *by_folded, compare_folded);
}

static di_status fail_tables(void)
{
    return di_fail(DI_ERR_UNSUPPORTED,
                   "Unicode %s of the installed utf8proc has larger tables "
                   "than are provided for",
                   utf8proc_unicode_version());
}

#define IN(category) (1u << UTF8PROC_CATEGORY_##category)

static const struct category_name {
    const char *brief, *full;
    uint32_t categories;
} category_names[] = {
    {"L", "Letter", IN(LU) | IN(LL) | IN(LT) | IN(LM) | IN(LO)},
    {"LC", "Cased_Letter", IN(LU) | IN(LL) | IN(LT)},
    {"Lu", "Uppercase_Letter", IN(LU)},
    {"Ll", "Lowercase_Letter", IN(LL)},
    {"Lt", "Titlecase_Letter", IN(LT)},
    {"Lm", "Modifier_Letter", IN(LM)},
    {"Lo", "Other_Letter", IN(LO)},
    {"M", "Mark", IN(MN) | IN(MC) | IN(ME)},
    {"M", "Combining_Mark", IN(MN) | IN(MC) | IN(ME)},
    {"Mn", "Nonspacing_Mark", IN(MN)},
    {"Mc", "Spacing_Mark", IN(MC)},
    {"Me", "Enclosing_Mark", IN(ME)},
    {"N", "Number", IN(ND) | IN(NL) | IN(NO)},
    {"Nd", "Decimal_Number", IN(ND)},
    {"Nd", "digit", IN(ND)},
    {"Nl", "Letter_Number", IN(NL)},
    {"No", "Other_Number", IN(NO)},
    {"P", "Punctuation", IN(PC) | IN(PD) | IN(PS) | IN(PE) | IN(PI) | IN(PF) | IN(PO)},
    {"P", "punct", IN(PC) | IN(PD) | IN(PS) | IN(PE) | IN(PI) | IN(PF) | IN(PO)},
    {"Pc", "Connector_Punctuation", IN(PC)},
    {"Pd", "Dash_Punctuation", IN(PD)},
    {"Ps", "Open_Punctuation", IN(PS)},
    {"Pe", "Close_Punctuation", IN(PE)},
    {"Pi", "Initial_Punctuation", IN(PI)},
    {"Pf", "Final_Punctuation", IN(PF)},
    {"Po", "Other_Punctuation", IN(PO)},
    {"S", "Symbol", IN(SM) | IN(SC) | IN(SK) | IN(SO)},
    {"Sm", "Math_Symbol", IN(SM)},
    {"Sc", "Currency_Symbol", IN(SC)},
    {"Sk", "Modifier_Symbol", IN(SK)},
    {"So", "Other_Symbol", IN(SO)},
    {"Z", "Separator", IN(ZS) | IN(ZL) | IN(ZP)},
    {"Zs", "Space_Separator", IN(ZS)},
    {"Zl", "Line_Separator", IN(ZL)},
    {"Zp", "Paragraph_Separator", IN(ZP)},
    {"C", "Other", IN(CC) | IN(CF) | IN(CS) | IN(CO) | IN(CN)},
    {"Cc", "Control", IN(CC)},
    {"Cc", "cntrl", IN(CC)},
    {"Cf", "Format", IN(CF)},
    {"Cs", "Surrogate", IN(CS)},
    {"Co", "Private_Use", IN(CO)},
    {"Cn", "Unassigned", IN(CN)},
};

static uint32_t categories_of(const char *name)
{
    for (size_t i = 0; i < sizeof category_names / sizeof *category_names; i++)
        if (strcmp(name, category_names[i].brief) == 0 || strcmp(name, category_names[i].full) == 0)
            return category_names[i].categories;
    return 0;
}

static di_status category_set(di_arena *arena, uint32_t categories, di_charset *out)
{
    pthread_once(&runs_once, make_runs);
    if (n_runs == 0)
        return fail_tables();
    di_charset_builder builder = {0};
    di_status status = DI_OK;
    for (size_t i = 0; i < n_runs && status == DI_OK; i++)
        if (categories >> runs[i].category & 1)
            status = di_charset_add(&builder, runs[i].first, runs[i + 1].first - 1);
    if (status == DI_OK)
        status = di_charset_finish(&builder, arena, false, out);
    di_charset_builder_free(&builder);
    return status;
}

static const struct binary_property {
    const char *name;
    di_charset set;
} binary_properties[] = {
#define SET(...)                                                                                   \
    {                                                                                              \
        .ranges = (const di_code_range[]){__VA_ARGS__},                                            \
        .n = sizeof((const di_code_range[]){__VA_ARGS__}) / sizeof(di_code_range)                  \
    }
#define HEX_DIGITS SET({'0', '9'}, {'A', 'F'}, {'a', 'f'})
#define SPACES                                                                                     \
    SET({0x09, 0x0D}, {0x20, 0x20}, {0x85, 0x85}, {0xA0, 0xA0}, {0x1680, 0x1680},                  \
        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000})
    {"Any", SET({0, 0xD7FF}, {0xE000, DI_CODE_LAST})},
    {"ASCII", SET({0, 0x7F})},
    {"ASCII_Hex_Digit", HEX_DIGITS},
    {"AHex", HEX_DIGITS},
    {"White_Space", SPACES},
    {"space", SPACES},
#undef SET
};

/* The value if name is KEY=value, else NULL. */
static const char *value_of(const char *name, const char *key)
{
    const size_t len = strlen(key);
    return strncmp(name, key, len) == 0 && name[len] == '=' ? name + len + 1 : NULL;
}

di_status di_unicode_property(di_arena *arena, const char *name, di_charset *out)
{
    const char *value = value_of(name, "General_Category");
    if (!value)
        value = value_of(name, "gc");
    const uint32_t categories = categories_of(value ? value : name);
    if (categories != 0)
        return category_set(arena, categories, out);
    if (strcmp(name, "Assigned") == 0)
        return category_set(arena, ~IN(CN), out);
    for (size_t i = 0; i < sizeof binary_properties / sizeof *binary_properties; i++)
        if (strcmp(name, binary_properties[i].name) == 0) {
            *out = binary_properties[i].set;
            return DI_OK;
        }
    return di_fail(DI_ERR_UNSUPPORTED,
                   "found the Unicode property \"%.40s\", wanted a general category, Any, ASCII, "
                   "Assigned, ASCII_Hex_Digit or White_Space",
                   name);
}

/* First pair of `pairs` whose code (or folded code) is not below `code`. */
static size_t first_pair(const fold_pair *pairs, bool is_by_folded, uint32_t code)
{
    size_t low = 0, high = n_folds;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if ((is_by_folded ? pairs[middle].folded : pairs[middle].code) < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static di_status add_folds(di_charset_builder *builder, di_code_range range)
{
    for (size_t i = first_pair(by_code, false, range.first);
         i < n_folds && by_code[i].code <= range.last; i++) {
        const uint32_t folded = by_code[i].folded;
        for (size_t j = first_pair(by_folded, true, folded);
             j < n_folds && by_folded[j].folded == folded; j++)
            DI_TRY(di_charset_add(builder, by_folded[j].code, by_folded[j].code));
    }
    return DI_OK;
}

di_status di_unicode_fold(di_arena *arena, di_charset set, di_charset *out)
{
    pthread_once(&folds_once, make_folds);
    if (n_folds == 0)
        return fail_tables();
    di_charset_builder builder = {0};
    di_status status = di_charset_add_set(&builder, set);
    for (uint32_t i = 0; i < set.n && status == DI_OK; i++)
        status = add_folds(&builder, set.ranges[i]);
    if (status == DI_OK)
        status = di_charset_finish(&builder, arena, false, out);
    di_charset_builder_free(&builder);
    return status;
}
