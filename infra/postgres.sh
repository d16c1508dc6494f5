#!/usr/bin/env bash
# Runs PostgreSQL in its container; the first start makes the database `touchstone` with the password PGPASSWORD.
set -euo pipefail

data=/var/lib/postgresql/data/main
if [ ! -e "$data" ]; then
    # In a folder beside it, so that a start that was cut off leaves nothing that looks finished.
    new=$data.new
    rm -rf "$new"
    initdb --pgdata "$new" --username touchstone --pwfile <(printf '%s\n' "$PGPASSWORD") --encoding UTF8 --locale C.UTF-8 \
        --auth-local peer --auth-host scram-sha-256
    sed -i 's/^local.*/local all all scram-sha-256/' "$new/pg_hba.conf"
    echo 'host all all all scram-sha-256' >>"$new/pg_hba.conf"
    # In single-user mode nobody can connect while it is half done.
    echo 'CREATE DATABASE touchstone;' | postgres --single -D "$new" postgres
    mv "$new" "$data"
fi
unset PGPASSWORD
exec postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=/tmp
