#!/bin/sh
# docker-php-ext-install, -enable, -configure, install-php-extensions and pecl of everybody's PHP images: Debian's package of each extension.
set -eu
case ${0##*/} in
  docker-php-ext-configure) exit 0 ;;
  pecl) [ "${1:-}" = install ] || exit 0; shift ;;
esac
packages=
for word in "$@"; do
  extension=${word%%-[0-9]*}
  case $extension in
    -*) continue ;;
    @composer | *[!a-z0-9_]*) continue ;;
    bz2 | bcmath | curl | gd | gmp | imap | intl | ldap | mbstring | odbc | opcache | pspell | snmp | soap | tidy | xml | zip) package=$extension ;;
    mysqli | pdo_mysql | mysqlnd) package=mysql ;;
    pgsql | pdo_pgsql) package=pgsql ;;
    sqlite3 | pdo_sqlite) package=sqlite3 ;;
    dom | simplexml | xmlreader | xmlwriter | xsl) package=xml ;;
    *) if php -m | grep -qix "$extension"; then continue; fi; package=$extension ;;
  esac
  packages="$packages php-$package"
done
[ -z "$packages" ] && exit 0
[ -n "$(ls -A /var/lib/apt/lists)" ] || apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $packages > /dev/null
