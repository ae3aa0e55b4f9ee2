# Shared by the scripts here; source it, do not run it. Defines ROOT and moves there.
# Every script that sources it stops at the first failing command and says which one it was.
set -euo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$ROOT"

# say TEXT: one line about what is going on.
say() { printf '== %s\n' "$*" >&2; }

# die WHAT WHY DO: what failed, why, what to do about it; ends the script with code 1.
die() {
  printf 'error: %s\n  why:  %s\n  do:   %s\n' "$1" "$2" "$3" >&2
  trap - ERR
  exit 1
}

trap 'code=$?; printf "error: %s: line %s failed with code %s: %s\n" \
  "${BASH_SOURCE[0]##*/}" "$LINENO" "$code" "$BASH_COMMAND" >&2' ERR
set -E

# package_names FILE…: the package names in files like packages.txt.
package_names() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$@" | awk '{print $1}'; }

# build_jobs: as many compilers as there are processors and 1.5 GB of free memory for each.
build_jobs() {
  local processors memory
  processors="$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)"
  memory="$(awk '/^MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo 2>/dev/null || true)"
  if [[ -n "$memory" && "$memory" -lt "$processors" ]]; then
    processors=$((memory > 1 ? memory : 1))
  fi
  echo "${MEADOW_JOBS:-$processors}"
}

# elapsed SECONDS: "3 min 04 s".
elapsed() { if (($1 < 60)); then echo "$1 s"; else printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); fi; }
