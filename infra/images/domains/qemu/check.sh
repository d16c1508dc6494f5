set -e
truncate -s 1M /tmp/check.img
guest-start /tmp/check.img
guest-console 'echo hello > /dev/vda; sync'
guest-qmp quit
test "$(head -c 5 /tmp/check.img)" = hello
zcat /srv/manuals/string_copying.7.gz | grep -q zustr2ustp
