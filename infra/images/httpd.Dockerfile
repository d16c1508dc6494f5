# Apache's httpd with the folders of everybody's image: all below /usr/local/apache2.
ARG BASE
FROM ${BASE}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq apache2 > /dev/null \
 && apt-get clean \
 && mkdir -p /usr/local/apache2/htdocs /usr/local/apache2/conf/extra /usr/local/apache2/cgi-bin /usr/local/apache2/logs \
 && ln -s /usr/lib/apache2/modules /usr/local/apache2/modules \
 && printf '#!/bin/sh\nexec apache2 -f /usr/local/apache2/conf/httpd.conf "$@"\n' > /usr/local/bin/httpd \
 && printf '#!/bin/sh\nexec httpd -D FOREGROUND "$@"\n' > /usr/local/bin/httpd-foreground \
 && chmod 755 /usr/local/bin/httpd /usr/local/bin/httpd-foreground
COPY httpd.conf /usr/local/apache2/conf/httpd.conf
WORKDIR /usr/local/apache2
RUN httpd -t
