set -e
test "$(sqlite3 :memory: 'select 1 + 1')" = 2
pg_ctlcluster 15 main start
test "$(psql -U postgres -Atc 'select 2 + 2')" = 4
test "$(psql -U postgres -Atc 'show server_encoding')" = UTF8
pg_ctlcluster 15 main stop
