#!/usr/bin/env bash
# check_layers: a module of src/ includes its own folder and lower layers only, never a sibling or
# upwards; apps/ and examples/ include public headers and their own.
#
#   base <- core <- {text, image, weights} <- {device, grammar} <- {kernels, comm} <- kv <- {sched, model}
#        <- {spec, sample} <- engine <- {api, bench} <- server
. "$(dirname "$0")/check_lib.sh"

layers='base=0 core=1 text=2 image=2 weights=2 device=3 grammar=3 kernels=4 comm=4 kv=5 sched=6 model=6
spec=7 sample=7 engine=8 api=9 bench=9 server=10'

mapfile -t files < <(tree_files 'src/*.[ch]' 'src/*.def' 'src/*.cu' 'src/*.cuh' 'apps/*.[ch]' \
    'examples/*.[ch]' 'include/*.h')
[[ ${#files[@]} -gt 0 ]] || cannot_run "no C files"
for file in "${files[@]}"; do
    [[ $file != src/*/* && $file == src/* ]] && finding "$file" "a source file outside a module folder"
done

while IFS=$'\t' read -r where text; do
    finding "$where" "$text"
done < <(awk -v layers="$layers" '
    function bad(text) { printf "%s:%d\t%s\n", FILENAME, FNR, text }
    function exists(path,    line, status) {
        status = (getline line < path); close(path)
        return status >= 0
    }
    BEGIN {
        n = split(layers, pairs, /[ \n]+/)
        for (i = 1; i <= n; i++) { split(pairs[i], pair, "="); level[pair[1]] = pair[2] }
    }
    FNR == 1 {
        split(FILENAME, part, "/"); top = part[1]; module = part[2]
        folder = FILENAME; sub(/\/[^\/]*$/, "", folder)
        if (top == "src" && part[3] != "" && !(module in level) && !(module in told)) {
            told[module] = 1
            bad("module " module " is not in the list of layers")
        }
    }
    match($0, /^[ \t]*#[ \t]*include[ \t]*"[^"]*"/) {
        path = substr($0, RSTART, RLENGTH); sub(/^[^"]*"/, "", path); sub(/"$/, "", path)
        split(path, to, "/")
        if (path ~ /\.\./) { bad("include \"" path "\" climbs out of its folder"); next }
        if (to[1] == "deepinfer") next
        if (top != "src") {
            if (to[1] in level && to[2] != "")
                bad(top "/ includes \"" path "\", wanted public headers or its own")
            next
        }
        if (to[2] == "") {
            if (!exists(folder "/" path) && exists("src/" module "/" path))
                bad("include \"" path "\" is found in no folder of its own")
            next
        }
        if (to[1] == module) next
        if (!(to[1] in level)) { bad("include \"" path "\" names no module"); next }
        if (level[to[1]] > level[module]) bad(module " includes \"" path "\", a higher layer")
        if (level[to[1]] == level[module]) bad(module " includes \"" path "\", a sibling")
    }' "${files[@]}")
report check_layers "${#files[@]} files"
