# shellcheck shell=bash
# Which Go, Ruby and Python to use; sourced by the other scripts. The PATH's come first; the system's own
# packages are looked at next, because a version manager's may be too old or lack a library.

# Every Go from 1.19 on, one path a line, each version once.
gos() {
  local go version seen=" "
  for go in "$(type -P go)" /usr/local/go/bin/go /usr/bin/go /usr/lib/go-*/bin/go; do
    [[ -x $go ]] || continue
    # "go version go1.19.8 linux/amd64"; a go.mod must not make it fetch another.
    version=$(GOTOOLCHAIN=local "$go" version 2>/dev/null) || continue
    version=${version#go version go}
    version=${version%% *}
    if [[ $seen != *" $version "* ]] && at_least "$version" 1.19; then
      seen+="$version "
      printf '%s\n' "$go"
    fi
  done
}

# The first Ruby from 3.1 on that can load all of the given libraries.
ruby_with() {
  local ruby
  for ruby in "$(type -P ruby)" /usr/bin/ruby; do
    [[ -x $ruby ]] || continue
    if "$ruby" "${@/#/-r}" -e 'exit((RUBY_VERSION.split(".").map(&:to_i) <=> [3, 1]) >= 0)' 2>/dev/null; then
      printf '%s\n' "$ruby"
      return
    fi
  done
  return 1
}

# The first Python with ctypes and an SQLite of its own.
python_with_sqlite() {
  local python
  for python in "$(type -P python3)" /usr/bin/python3; do
    [[ -x $python ]] || continue
    if "$python" -c 'import ctypes, sqlite3' 2>/dev/null; then
      printf '%s\n' "$python"
      return
    fi
  done
  return 1
}

# at_least HAVE WANT: compares versions.
at_least() {
  [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}
