# Makes the initramfs of the guest from a kernel package, boots it once and keeps the snapshot "booted".
set -euo pipefail
here=/opt/guest
kernel=$1
cp "$kernel"/boot/vmlinuz-* $here/vmlinuz
version=$(basename "$kernel"/lib/modules/*)
root=$(mktemp -d)
mkdir -p "$root"/{bin,etc,lib/modules/"$version"}
cp "$(command -v busybox)" "$root"/bin/busybox
mv $here/init $here/rc "$root"/
mv "$root"/rc "$root"/etc/rc
chmod 755 "$root"/init "$root"/etc/rc
modules=$kernel/lib/modules/$version
cp "$modules"/modules.builtin* "$modules"/modules.order "$root/lib/modules/$version"/
find "$modules" \( -name 'virtio*.ko' -o -path '*/fs/ext4/*' -o -path '*/fs/jbd2/*' -o -path '*/fs/fat/*' \
    -o -name 'mbcache.ko' -o -name 'crc16.ko' -o -name 'crc32c*.ko' -o -name 'nls_*.ko' -o -name 'libcrc32c.ko' \) \
    | while read -r module; do
    target=$root/lib/modules/$version/${module#"$modules"/}
    mkdir -p "$(dirname "$target")"
    cp "$module" "$target"
done
busybox depmod -b "$root" "$version"
(cd "$root" && find . -print0 | sort -z | cpio --null --quiet -o -H newc --reproducible -R 0:0) | gzip -9 > $here/initramfs.cpio.gz
chmod 755 $here/start $here/console $here/qmp
qemu-img create -q -f qcow2 $here/booted.qcow2 64M
COLD=1 $here/start -d /tmp/first -s $here/booted.qcow2
$here/console -d /tmp/first 'dmesg -n 1; uname -r'
$here/qmp -d /tmp/first human-monitor-command '{"command-line": "savevm booted"}'
$here/qmp -d /tmp/first quit
qemu-img snapshot -l $here/booted.qcow2 | grep -w booted
