# Lists programs that the Go compiler made from packages of a module, or of a folder where there are no modules: it
# writes their import path into each.
tab=$(printf '\t')
find / -xdev '(' -path /proc -o -path /sys -o -path /dev -o -path /usr/lib -o -path /usr/share -o -path /usr/local/go \
  -o -path '*/go/pkg' -o -path /root/.cache ')' -prune -o -type f -perm -u+x -size +400k -print 2> /dev/null \
  | head -n 500 | while read -r file; do
  if grep -q -a -F -e "path$tab$1" -e "path${tab}_$2" "$file"; then echo "$file"; fi
done
