#!/usr/bin/env bash
# check_install: `make install` into an empty DESTDIR, then programs outside the tree (tests/install and
# examples/) compile through pkg-config in C99 and C++, link with the shared and with the static
# library, and run; the installed program prints its version.
. "$(dirname "$0")/check_lib.sh"

need_program pkg-config
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
prefix=/opt/deepinfer
make -s install DESTDIR="$tmp" PREFIX=$prefix >"$tmp/log" 2>&1 || {
    tail -n 20 "$tmp/log"
    cannot_run "make install fails"
}

top=$tmp$prefix
for file in bin/deepinfer lib/libdeepinfer.a lib/libdeepinfer.so lib/pkgconfig/deepinfer.pc \
    include/deepinfer/deepinfer.h include/deepinfer/tools.h; do
    compgen -G "$top/$file" >/dev/null || finding "$prefix/$file" "not installed"
done
while IFS= read -r path; do
    finding "$path" "installed outside PREFIX"
done < <(find "$tmp" -mindepth 1 ! -path "$tmp/opt" ! -path "$tmp$prefix" ! -path "$tmp$prefix/*" \
    ! -path "$tmp/log")

export PKG_CONFIG_PATH=$top/lib/pkgconfig
version=$(pkg-config --modversion deepinfer) || cannot_run "pkg-config does not find deepinfer"
read -ra cflags < <(pkg-config --cflags deepinfer)
read -ra shared < <(pkg-config --libs deepinfer)
read -ra static < <(pkg-config --static --libs deepinfer | sed 's/-ldeepinfer/-l:libdeepinfer.a/')

# try_build SOURCE KIND OUT COMPILER... LIBRARIES: an outside program links and uses the right library.
try_build()
{
    local source=$1 kind=$2 out=$3 errors uses=no
    shift 3
    if ! errors=$("$@" 2>&1); then
        finding "$source" "$kind: $(grep -m 1 -E 'error|undefined' <<<"$errors")"
        return 1
    fi
    [[ $(ldd "$out" 2>&1) != *libdeepinfer* ]] || uses=yes
    [[ $uses == "$([[ $kind == shared ]] && echo yes || echo no)" ]] ||
        finding "$source" "$kind: links with the other library"
}

n=0
for kind in shared static; do
    libraries=("${static[@]}")
    [[ $kind == static ]] || libraries=("${shared[@]}" "-Wl,-rpath,$top/lib")
    for source in $(tree_files 'tests/install/*.c' 'tests/install/*.cpp' 'examples/*.c'); do
        compiler=(gcc -std=gnu17)
        case $source in
        tests/install/*.c) compiler=(gcc -std=c99 -pedantic-errors) ;;
        *.cpp) compiler=(g++ -std=c++17) ;;
        esac
        out=$tmp/$kind-$(basename "$source" | tr . _)
        n=$((n + 1))
        try_build "$source" $kind "$out" "${compiler[@]}" -Wall -Wextra -Werror \
            -Wno-missing-field-initializers "${cflags[@]}" "$source" -o "$out" "${libraries[@]}" ||
            continue
        [[ $source == tests/install/* ]] || continue
        printed=$("$out" 2>&1) || true
        [[ $printed == "$version" ]] ||
            finding "$source" "$kind: printed '$printed', wanted '$version'"
    done
done
if [[ -x $top/bin/deepinfer ]]; then
    printed=$("$top/bin/deepinfer" version 2>&1 | head -n 1) || true
    [[ $printed == *"$version"* ]] ||
        finding "$prefix/bin/deepinfer" "version printed '$printed', wanted $version in it"
fi
report check_install "$n programs outside the tree, version $version"
