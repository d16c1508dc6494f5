set -e
test "$(echo '{"a": 2}' | jq .a)" = 2
test "$(printf 'a\n3\n' | mlr --icsv --ojson --jvstack head -n 1 | jq '.[0].a')" = 3
test "$(gawk 'BEGIN { print 2 ** 3 }')" = 8
test "$(echo '<a><b>x</b></a>' | xmlstarlet sel -t -v /a/b)" = x
python3 -c 'import csv, json, sqlite3, xml.etree.ElementTree'
