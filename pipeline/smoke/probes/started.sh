# Runs one command with no input. It ends with the command, or with success when the command has opened a port and is
# still there a second later. A sandbox has a network of its own: nobody else's ports are seen.
set -m 2> /dev/null
ending=/tmp/touchstone-ending.$$
ports() { cat /proc/net/tcp /proc/net/tcp6 2> /dev/null | grep -c ' 0A '; }
before=$(ports)
{ (eval "$1") < /dev/null; echo $? > "$ending"; } &
while [ ! -s "$ending" ]; do
  if [ "$(ports)" -gt "$before" ]; then
    sleep 1
    if [ ! -s "$ending" ]; then
      echo 'touchstone: it listens'
      kill -9 -- "-$!" 2> /dev/null
      exit 0
    fi
  fi
  sleep 0.05
done
code=$(cat "$ending")
rm -f "$ending"
exit "$code"
