# PHP: the command line interpreter, its usual extensions, Composer, an autoloader generator, and the programs with which
# everybody's PHP images add extensions.
ARG BASE
FROM ${BASE}
COPY extension.sh /usr/local/bin/docker-php-ext-install
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    composer phpab php-cli php-curl php-intl php-mbstring php-sqlite3 php-xml php-zip > /dev/null \
 && apt-get clean \
 && chmod 755 /usr/local/bin/docker-php-ext-install \
 && for name in docker-php-ext-enable docker-php-ext-configure pecl; do ln -s docker-php-ext-install /usr/local/bin/$name; done \
 && cp /usr/local/bin/docker-php-ext-install /usr/bin/install-php-extensions \
 && mkdir -p /usr/local/etc/php/conf.d \
 && for kind in development production; do cp /usr/lib/php/*/php.ini-$kind /usr/local/etc/php/php.ini-$kind; done \
 && ln -sf /usr/bin/composer /usr/local/bin/composer
# An empty first part is Debian's own folder.
ENV PHP_INI_DIR=/usr/local/etc/php PHP_INI_SCAN_DIR=:/usr/local/etc/php/conf.d COMPOSER_ALLOW_SUPERUSER=1
# Asked once, and no matter what it answers: whoever watches the way out learns which registry serves packages.
RUN php -v && (timeout 60 composer show --available psr/log > /dev/null 2>&1; rm -rf /root/.composer /root/.cache)
