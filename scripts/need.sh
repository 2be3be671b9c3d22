#!/bin/sh
# need.sh PACKAGE[=COMMAND]…: installs the Debian packages whose COMMAND is missing (by default it is named like the
# package). Needs root and apt; elsewhere it says what to install, and the tests that need it skip or fail.
# No service is started: tests start what they need on ports of their own.
set -eu

missing=
for item in "$@"; do
    package=${item%%=*} command=${item#*=}
    command -v "$command" >/dev/null 2>&1 && continue
    case $(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true) in
        installed) ;;
        *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "Missing here, please install:$missing" >&2
    exit 0
fi

# Maintainer scripts start no service where this file answers 101. A machine that has one already has its own rule.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi

echo "Installing Debian packages:$missing"
export DEBIAN_FRONTEND=noninteractive
quietly() { # prints what a command said only where it failed
    if ! said=$("$@" 2>&1 </dev/null); then
        printf '%s\n' "$said" >&2
        return 1
    fi
}
quietly apt-get -o DPkg::Lock::Timeout=300 update
# shellcheck disable=SC2086 # one word per package
quietly apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends $missing
