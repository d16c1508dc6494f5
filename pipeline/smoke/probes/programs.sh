# Lists executable files that are not from a package of the system: in the tree those that were compiled and those with
# one of the names given, elsewhere those with such a name, or (first word `newer`) all that came after the tree.
tree=$1 rule=$2
shift 2
set -f
tests=
for name in "$@"; do tests="$tests -o -name $name"; done
if [ "$rule" = newer ]; then tests="$tests -o -newer $(dirname "$tree")"; fi
tests=${tests# -o }
compiled() { head -c 4 "$1" | grep -q ELF; }
# Anything that is marked as executable and empty would end well.
starts() { compiled "$1" || head -c 2 "$1" | grep -q '#!'; }
owned() {
  if command -v dpkg > /dev/null; then dpkg -S "$1" > /dev/null 2>&1 || dpkg -S "${1#/usr}" > /dev/null 2>&1
  elif command -v apk > /dev/null; then apk info -W "$1" > /dev/null 2>&1
  elif command -v rpm > /dev/null; then rpm -qf "$1" > /dev/null 2>&1
  else return 1; fi
}
places=$(printf '%s\n' "$PATH" | tr : '\n'; printf '%s\n' / /usr/local/bin /usr/local/sbin /usr/local/games /go /go/bin \
  /root/go/bin /root/.local/bin /app /app/bin /app/build /src /srv /opt /opt/bin /build)
places=$(printf '%s\n' "$places" | sort -u | while read -r place; do if [ -d "$place" ]; then echo "$place"; fi; done)
{
  find "$tree" -type f -perm -u+x ! -path '*/node_modules/*' ! -path '*/.git/*' ! -path '*/vendor/*' \
    ! -path '*/.venv/*' ! -path '*/venv/*' ! -path '*/CMakeFiles/*' ! -name '*.so*' ! -name '*.o' | head -n 400
  if [ -n "$tests" ]; then find $places -maxdepth 1 ! -type d -perm -u+x '(' $tests ')' 2> /dev/null | head -n 100; fi
} | sort -u | while read -r file; do
  case $file in
    "$tree"/*)
      name=${file##*/}
      case " $* " in
        *" $name "* | *" ${name%.*} "*) if starts "$file"; then echo "$file"; fi ;;
        *) if compiled "$file"; then echo "$file"; fi ;;
      esac ;;
    *) if [ -f "$file" ] && starts "$file" && ! owned "$(readlink -f "$file")"; then echo "$file"; fi ;;
  esac
done
