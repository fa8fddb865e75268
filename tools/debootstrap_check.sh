#!/usr/bin/env bash
# debootstrap_check [SUITE]: proof that a fresh system builds and runs the tree. Makes a minimal chroot
# of Debian SUITE (default: bookworm) with debootstrap, clones the committed tree into it, and as root
# inside it runs `make test` and `make run`, which install all they need through tools/setup.sh. Prints
# the times. Needs root, debootstrap, about 2 GiB and a Debian mirror: DI_MIRROR, or the first one in
# /etc/apt. Leaves nothing behind; DI_KEEP=1 keeps the chroot. Not part of .ci/run.
#
# Ubuntu 24.04 has not been run this way: its package names come from its archive's index. With an
# Ubuntu mirror: DI_MIRROR=http://archive.ubuntu.com/ubuntu tools/debootstrap_check.sh noble
. "$(dirname "$0")/check_lib.sh"

suite=${1:-bookworm}
[[ $(id -u) -eq 0 ]] || cannot_run "it needs root"
for program in debootstrap chroot git; do
    command -v $program >/dev/null || cannot_run "$program is missing"
done

first_mirror()
{
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources \
        2>/dev/null | grep -hoE '^(deb .*|URIs: *)https?://[^ ]*/debian/?( |$)' |
        grep -oE 'https?://[^ ]+' | head -n 1
}

mirror=${DI_MIRROR:-$(first_mirror || true)}
[[ -n $mirror ]] || cannot_run "no Debian mirror in /etc/apt; set DI_MIRROR"
root=$(mktemp -d "${TMPDIR:-/tmp}/debootstrap.XXXXXX")
chmod 755 "$root"

remove_chroot()
{
    local point
    for point in dev/null dev/urandom dev/random dev/zero dev/pts proc; do
        ! mountpoint -q "$root/$point" || umount "$root/$point" || return
    done
    [[ -n ${DI_KEEP:-} ]] || rm -rf --one-file-system "$root"
}
trap remove_chroot EXIT

inside()
{
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        bash -c "$1"
}

# timed WHAT COMMAND...: the last lines of its output, or more if it fails.
timed()
{
    local what=$1 begun=$SECONDS status=0
    shift
    "$@" >"$root.log" 2>&1 </dev/null || status=$?
    if [[ $status -ne 0 ]]; then
        grep -E '^\[ +(ERROR|LINE|FAILED) +\]|error:' "$root.log" | head -n 40
        tail -n 30 "$root.log"
        finding "$suite" "$what failed with status $status"
    else
        tail -n "${tail_lines:-3}" "$root.log" | sed 's/^/    /'
    fi
    printf '%s: %d s\n' "$what" $((SECONDS - begun))
    rm -f "$root.log"
    return $status
}

# A mirror that apt reaches here through settings of its own must be reached from inside as well.
copy_apt_settings()
{
    local file
    for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*proxy*; do
        [[ ! -e $file ]] || cp "$file" "$root/etc/apt/apt.conf.d/"
    done
    cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
    cp -L /etc/hosts "$root/etc/hosts" 2>/dev/null || true
}

proof()
{
    timed "debootstrap $suite from $mirror" debootstrap --variant=minbase "$suite" "$root" "$mirror" ||
        return
    copy_apt_settings
    # What every running system has: the tests look at processes and open terminals.
    mkdir -p "$root/proc" "$root/dev/pts"
    mount -t proc proc "$root/proc" || finding proc "cannot be mounted"
    mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts" ||
        finding dev/pts "cannot be mounted"
    ln -sf pts/ptmx "$root/dev/ptmx"
    timed "clone" git clone -q --no-hardlinks . "$root/deepinfer" || return
    # What a fresh system lacks to start at all; everything else is tools/setup.sh's work.
    timed "apt-get install make" inside 'apt-get update -q &&
        DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends make' || return
    tail_lines=4 timed "make test (set-up, build, tests)" inside 'cd /deepinfer && make test' || return
    tail_lines=8 timed "make run" inside 'cd /deepinfer && make run' || return
    timed "make again (nothing to do)" inside 'cd /deepinfer && make'
}

proof || true
report debootstrap_check "$suite"
