#!/usr/bin/env bash
# check_all [BUILD]: runs every style check, the libraries of BUILD (default: build) included, and fails
# if one of them does.
. "$(dirname "$0")/check_lib.sh"

failed=()
for check in format layers headers banned functions tree text cuda; do
    "tools/check_$check.sh" || failed+=("$check")
done
tools/check_symbols.sh "${1:-build}" || failed+=(symbols)
if [[ ${#failed[@]} -ne 0 ]]; then
    echo "style: FAILED: ${failed[*]}"
    exit 1
fi
echo "style: ok"
