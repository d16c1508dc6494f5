# Compiles a program and runs it: language, source, program, folder of headers, library or nothing. All that a shared
# library needs is resolved when the program starts, all that an archive needs when it is linked.
language=$1 source=$2 program=$3 folder=$4 library=$5
if [ "$language" = c++ ]; then compilers='c++ g++ clang++'; else compilers='cc gcc clang'; fi
for one in $compilers; do if command -v "$one" > /dev/null; then compiler=$one; break; fi; done
if [ -z "$compiler" ]; then echo "no compiler for $language"; exit 1; fi
rest='-lm -lpthread -ldl'
directory=$(dirname "$library")
case $library in
  '') link= ;;
  *.a) link="-Wl,--whole-archive $library -Wl,--no-whole-archive" ;;
  *) link="-Wl,--no-as-needed $library -Wl,-rpath,$directory" ;;
esac
for file in "$directory"/pkgconfig/*.pc "$directory"/../lib/pkgconfig/*.pc; do
  if [ -n "$library" ] && [ -f "$file" ] && command -v pkg-config > /dev/null; then
    name=$(basename "$library"); name=${name#lib}
    case $(basename "$file" .pc) in
      "${name%%.*}" | "lib${name%%.*}") rest="$rest $(pkg-config --cflags --libs --static "$file" 2> /dev/null)" ;;
    esac
  fi
done
flags="-w -I $folder"
# shellcheck disable=SC2086
set -- $flags "$source" -o "$program" $link $rest
"$compiler" "$@" || { [ "$language" = c++ ] && "$compiler" -std=c++20 "$@"; } || exit 1
LD_BIND_NOW=1 "$program"
