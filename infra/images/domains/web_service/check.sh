set -e
nginx -v
haproxy -v
redis-server --version
node --version
php --version
php-fpm8.2 --version
apache2 -v
openssl version
python3 -c 'import flask, sqlite3'
test "$(echo '{"ready": 1}' | jq .ready)" = 1
