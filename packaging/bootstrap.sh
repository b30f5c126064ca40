# Sourced by ./run, ./test and .ci/run: a virtual environment with what they need, said as it is fetched.
#
#   need_programs PACKAGE:PROGRAM ...   Debian packages, by apt as root or with sudo; else says how, exit 2;
#                                       with what Python needs for its environment
#   need_environment [EXTRA ...]        a virtual environment in .venv with the project and these extras

# Hundreds of processes start, of which none is to compile everything anew.
unset PYTHONDONTWRITEBYTECODE

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

may_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; }
}

# Asked by whatever apt installs before it starts a service: 101 is "no". A broker that Debian starts by itself
# would only hold a port; the tests and the venue start their own.
start_no_services() {
    local policy=/usr/sbin/policy-rc.d
    [ -d "$(dirname $policy)" ] && [ ! -e $policy ] || return 0
    trap "as_root rm -f $policy" EXIT
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
    as_root chmod 755 $policy
}

install_packages() {
    if ! may_install; then
        say "please run: sudo apt-get install -y $*"
        return 2
    fi
    say "fetching with apt: $* (their services are not started)"
    # In a shell of its own: what start_no_services left behind goes with it, also on Ctrl-C.
    (
        start_no_services
        as_root apt-get update -qq >&2 || say "apt-get update failed, trying with the lists as they are"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
    )
}

has_program() {
    case "$1" in
        /*) [ -e "$1" ] ;;
        *) PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1 ;;
    esac
}

need_programs() {
    local missing=() pair
    for pair in "$@"; do
        has_program "${pair#*:}" || missing+=("${pair%%:*}")
    done
    # In the same breath, so that whoever has to type it types once.
    [ -x .venv/bin/pip ] || missing+=($(missing_venv))
    [ "${#missing[@]}" = 0 ] && return 0
    install_packages "${missing[@]}"
}

find_python() {
    local candidate
    for candidate in ${EDGEAGENT_PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return 0
        fi
    done
    say "Python 3.11 or newer is needed; EDGEAGENT_PYTHON may name one"
    return 2
}

# The package that Debian's Python lacks to make an environment; nothing where it can.
missing_venv() {
    local python
    python=$(find_python) || return 2
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        "$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'
}

make_environment() {
    local python package
    python=$(find_python) || return 2
    package=$(missing_venv)
    [ -z "$package" ] || install_packages "$package" || return 2
    # Anew: one that was left half made has no pip.
    "$python" -m venv --clear .venv
}

# .venv is made once; a change of pyproject.toml or of this file installs anew. What was installed with more
# extras serves for fewer.
need_environment() {
    local extras stamp mark
    extras=$(IFS=-; printf '%s' "$*")
    stamp=".venv/edgeagent-$(cat pyproject.toml packaging/bootstrap.sh | sha256sum | cut -c1-16)"
    for mark in "$stamp-$extras" "$stamp-test"; do
        # A library is asked for: when Debian's Python becomes another one, none of those in .venv is seen any more.
        [ -e "$mark" ] && .venv/bin/python -c 'import pydantic' 2>/dev/null && return 0
    done
    .venv/bin/python -m pip --version >/dev/null 2>&1 || make_environment || return
    say "fetching Python packages into .venv (once)"
    .venv/bin/python -m pip install -q --disable-pip-version-check -e ".${extras:+[${extras//-/,}]}" >&2 || return
    touch "$stamp-$extras"
}
