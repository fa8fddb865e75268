#!/usr/bin/env bash
# Installs what building and testing need. Called by make and .ci/run before anything else.
#
#   tools/setup.sh             build and tests
#   tools/setup.sh ci          also what the style checks and the clang builds need
#   tools/setup.sh qemu        also the emulator of tools/check_isa.sh
#   tools/setup.sh --list [ci] only prints the Debian packages of that mode
#
# It looks for programs and pkg-config modules, not for packages, so that anything that provides them
# will do. What is missing is installed with apt-get as root or through passwordless sudo; otherwise
# the exact command is printed and the exit status is 1. Nothing is printed when nothing is missing.
#
# Debian 12: proven in a chroot by tools/debootstrap_check.sh. Ubuntu 24.04: the package names are
# those of its archive, not run there. Elsewhere the missing programs and modules are listed.
set -euo pipefail

min_cmake=3.25
min_gcc=12

usage()
{
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
}

mode=build
list=no
for arg in "$@"; do
    case $arg in
    -h | --help) usage; exit 0 ;;
    --list) list=yes ;;
    ci | build | qemu) mode=$arg ;;
    *) echo "setup: found argument '$arg', wanted ci, build, qemu, --list or --help" >&2; exit 2 ;;
    esac
done

os=unknown
os_name="this system"
if [[ -r /etc/os-release ]]; then
    os=$(. /etc/os-release && echo "${ID:-unknown}:${VERSION_ID:-}")
    os_name=$(. /etc/os-release && echo "${PRETTY_NAME:-$os}")
fi

# What is needed: "kind name package". Kinds: program, module (of pkg-config), file, clang_rt.
needs="program gcc gcc
program g++ g++
program cmake cmake
program ninja ninja-build
program pkg-config pkg-config
module jansson libjansson-dev
module libutf8proc libutf8proc-dev
module libpcre2-8 libpcre2-dev
module libcurl libcurl4-openssl-dev
module libcrypto libssl-dev
module cmocka libcmocka-dev
module liblzma liblzma-dev
file /etc/ssl/certs/ca-certificates.crt ca-certificates"
if [[ $mode == ci ]]; then
    needs+="
program git git
program clang clang
program clang-format-14 clang-format-14
program pmccabe pmccabe
clang_rt fuzzer libclang-rt-dev"
fi

if [[ $mode == qemu ]]; then
    needs+="
program qemu-x86_64 qemu-user"
fi

if [[ $list == yes ]]; then
    awk '{print $3}' <<<"$needs"
    exit 0
fi

has_clang_rt()
{
    local dir
    dir=$(clang -print-resource-dir 2>/dev/null) && compgen -G "$dir/lib/*/libclang_rt.$1*" >/dev/null
}

# Sets missing (packages) and missing_names (programs and modules).
find_missing()
{
    local kind name package found modules=
    missing=() missing_names=()
    if ! command -v pkg-config >/dev/null; then
        modules=none
    elif pkg-config --exists $(awk '$1 == "module" {print $2}' <<<"$needs"); then
        modules=all
    fi
    while read -r kind name package; do
        found=no
        case $kind in
        program) command -v "$name" >/dev/null && found=yes ;;
        module)
            if [[ $modules == all ]] || { [[ $modules != none ]] && pkg-config --exists "$name"; }; then
                found=yes
            fi
            ;;
        file) [[ $os != debian:* && $os != ubuntu:* || -e $name ]] && found=yes ;;
        clang_rt) has_clang_rt "$name" && found=yes ;;
        esac
        if [[ $found == no ]]; then
            missing+=("$package")
            missing_names+=("$name")
        fi
    done <<<"$needs"
}

at_least() # at_least WANTED FOUND
{
    [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]
}

check_versions()
{
    local cmake_version gcc_version
    read -r _ _ cmake_version _ < <(cmake --version)
    at_least $min_cmake "$cmake_version" || {
        echo "setup: found cmake $cmake_version, wanted $min_cmake or later" >&2
        exit 1
    }
    gcc_version=$(gcc -dumpversion)
    at_least $min_gcc "$gcc_version" || {
        echo "setup: found gcc $gcc_version, wanted $min_gcc or later" >&2
        exit 1
    }
}

find_missing
if [[ ${#missing[@]} -eq 0 ]]; then
    check_versions
    exit 0
fi

if ! command -v apt-get >/dev/null; then
    echo "setup: $os_name has no apt-get. Install these programs and pkg-config modules, then repeat:" >&2
    printf '    %s\n' "${missing_names[@]}" >&2
    echo "setup: Debian calls their packages: ${missing[*]}" >&2
    exit 1
fi
case $os in
debian:12 | ubuntu:24.04) ;;
*) echo "setup: $os_name is neither Debian 12 nor Ubuntu 24.04: trying their package names" >&2 ;;
esac

apt_options=(-y --no-install-recommends -o DPkg::Lock::Timeout=300)
as_root=()
if [[ $(id -u) -ne 0 ]]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root=(sudo -n)
    else
        echo "setup: packages are missing and installing them needs root. Run this, then repeat:" >&2
        echo "sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
fi

echo "setup: installing ${missing[*]}" >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 ||
    echo "setup: apt-get update failed; trying with the lists there are" >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install "${apt_options[@]}" "${missing[@]}" >&2 || {
    echo "setup: apt-get could not install: ${missing[*]}" >&2
    exit 1
}
hash -r
find_missing
if [[ ${#missing[@]} -ne 0 ]]; then
    echo "setup: installed, but still not found: ${missing_names[*]}" >&2
    exit 1
fi
check_versions
