# PHP as a module of Apache, which everybody's image of that kind takes from Debian too.
ARG BASE
FROM ${BASE}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq apache2 libapache2-mod-php > /dev/null \
 && apt-get clean \
 && printf '#!/bin/sh\n. /etc/apache2/envvars\nexec apache2 -D FOREGROUND "$@"\n' > /usr/local/bin/apache2-foreground \
 && chmod 755 /usr/local/bin/apache2-foreground
ENV APACHE_CONFDIR=/etc/apache2 APACHE_ENVVARS=/etc/apache2/envvars
WORKDIR /var/www/html
