# Shared by tools/check_*.sh: sourced, not run. Leaves the shell in the top folder of the repository.
#
# A check calls `finding FILE[:LINE] TEXT` for each thing wrong and ends with `report NAME WHAT`, which
# prints one line and sets the exit status: 0 clean, 1 findings. 2 means that the check could not run.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
-h | --help)
    sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "tools/$(basename "$0")"
    exit 0
    ;;
esac

n_findings=0

finding()
{
    n_findings=$((n_findings + 1))
    printf '%s: %s\n' "$1" "$2"
}

report()
{
    if [[ $n_findings -ne 0 ]]; then
        printf '%s: FAILED, %d findings in %s\n' "$1" "$n_findings" "$2"
        exit 1
    fi
    printf '%s: ok, %s\n' "$1" "$2"
}

cannot_run()
{
    printf '%s: cannot run: %s\n' "$(basename "$0" .sh)" "$1" >&2
    exit 2
}

need_program()
{
    command -v "$1" >/dev/null || cannot_run "$1 is missing; tools/setup.sh ci installs it"
}

# Files of the working tree that git does not ignore, one a line; arguments are pathspecs.
tree_files()
{
    git ls-files -co --exclude-standard -- "$@" | sort -u | while IFS= read -r path; do
        if [[ -e $path || -L $path ]]; then printf '%s\n' "$path"; fi
    done
}

count_lines()
{
    wc -l | tr -d ' '
}
