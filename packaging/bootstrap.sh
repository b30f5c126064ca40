# Sourced by ./run, ./test and .ci/run: a virtual environment with what they need, said as it is fetched.
#
#   need_programs PACKAGE:PROGRAM ...   Debian packages, by apt as root or with sudo; else says how, exit 2
#   need_environment EXTRA ...          a virtual environment in .venv with the project and these extras

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

may_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; }
}

install_packages() {
    if ! may_install; then
        say "please run: sudo apt-get install -y $*"
        return 2
    fi
    say "fetching with apt: $*"
    export DEBIAN_FRONTEND=noninteractive
    # A broker that Debian starts by itself would only hold a port: the tests and the demo start their own.
    as_root apt-get update -qq >&2 || say "apt-get update failed, trying with the lists as they are"
    if [ -d /usr/sbin ] && [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee /usr/sbin/policy-rc.d >/dev/null
        as_root chmod 755 /usr/sbin/policy-rc.d
        local made=1
    fi
    local status=0
    as_root apt-get install -y -qq --no-install-recommends "$@" >&2 || status=$?
    [ -z "${made:-}" ] || as_root rm -f /usr/sbin/policy-rc.d
    return $status
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
    say "Python 3.11 or newer is needed"
    return 2
}

# .venv is made once; a change of pyproject.toml or of the extras installs anew.
need_environment() {
    local python extras mark
    python=$(find_python) || return 2
    extras=$(IFS=,; printf '%s' "$*")
    mark=".venv/edgeagent-$(cat pyproject.toml packaging/bootstrap.sh | sha256sum | cut -c1-16)-${extras//,/-}"
    [ -e "$mark" ] && return 0
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        install_packages python3-venv || return 2
    fi
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    say "fetching Python packages into .venv (once)"
    .venv/bin/python -m pip install -q --disable-pip-version-check -e ".[$extras]" >&2
    touch "$mark"
}
