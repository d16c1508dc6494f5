echo "no flux capacitor on this machine" >&2
exit 3
