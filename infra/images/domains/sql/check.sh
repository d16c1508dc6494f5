set -e
test "$(sqlite3 :memory: 'select 1 + 1')" = 2
