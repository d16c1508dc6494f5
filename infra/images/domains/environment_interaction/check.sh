set -e
test "$(echo '2^70' | bc)" = 1180591620717411303424
test "$(echo '6 7 * p' | dc)" = 42
test "$(printf 'a\nworld\n.\n1s/w/W/p\nQ\n' | ed -s)" = World
test "$(sqlite3 :memory: 'select 1 + 1')" = 2
python3 -c 'import curses, pexpect; pexpect.spawn("cat").close()'
expect -c 'spawn -noecho printf ready; expect ready' >/dev/null
tmux -V
zcat /srv/manuals/slist.3.gz | grep -q SLIST_INSERT_AFTER
