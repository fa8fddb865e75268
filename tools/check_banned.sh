#!/usr/bin/env bash
# check_banned: calls that the library or the whole tree must not make. Everywhere in src/ and apps/:
# unbounded or unchecked string functions, hidden global state, getenv outside src/base/options.c (and
# apps/hub_env.c for the variables of the Hugging Face tools, which the library never reads). In src/
# also: ending the process, and writing to the standard streams (a FILE * argument is fine).
. "$(dirname "$0")/check_lib.sh"

anywhere='sprintf|vsprintf|strcpy|stpcpy|strcat|gets|strtok|atoi|atol|atoll|atof|rand|srand|random'
anywhere+='|system|popen|alloca|tmpnam|tempnam|mktemp|setlocale|asctime|ctime|gmtime|localtime'
library='exit|_exit|_Exit|quick_exit|abort|printf|vprintf|puts|putchar|perror|signal|sigaction|fork'
environment='getenv|secure_getenv|setenv|putenv|unsetenv'

n_files=0

# search FILE PATTERN TEXT: places in $code that match the extended regular expression.
search()
{
    local line found
    while IFS= read -r line; do
        found=$(grep -oE '[A-Za-z_][A-Za-z0-9_]*' <<<"${line#*:}" | head -n 1)
        finding "$1:${line%%:*}" "$found: $3"
    done < <(grep -noE "$2" <<<"$code" || true)
}

call() # call NAMES: a call of one of them (not a member, not part of a longer name)
{
    echo "(^|[^A-Za-z0-9_.>])($1)[[:space:]]*\("
}

while IFS= read -r file; do
    n_files=$((n_files + 1))
    code=$(awk -f tools/strip_c.awk "$file")
    search "$file" "$(call "$anywhere")" "a banned call"
    if [[ $file != src/base/options.c && $file != apps/hub_env.c ]]; then
        search "$file" "$(call "$environment")|(^|[^A-Za-z0-9_])environ([^A-Za-z0-9_]|$)" \
            "the environment is read by src/base/options.c"
    fi
    if [[ $file == src/* ]]; then
        search "$file" "$(call "$library")" "banned in the library"
        search "$file" "(^|[^A-Za-z0-9_])(stdout|stderr)([^A-Za-z0-9_]|$)" \
            "the library writes to no standard stream; take a FILE * argument"
    fi
done < <(tree_files 'src/*.c' 'src/*.h' 'src/*.cu' 'src/*.cuh' 'apps/*.c' 'apps/*.h')
report check_banned "$n_files files"
