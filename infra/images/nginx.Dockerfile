# nginx with the folders of everybody's image: pages in /usr/share/nginx/html, servers in /etc/nginx/conf.d.
ARG BASE
FROM ${BASE}
COPY default.conf /etc/nginx/conf.d/default.conf
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq curl gettext-base nginx-light > /dev/null \
 && apt-get clean \
 && rm -f /etc/nginx/sites-enabled/default \
 && useradd --system --no-create-home nginx \
 && mkdir -p /usr/share/nginx/html /etc/nginx/templates /docker-entrypoint.d \
 && nginx -t
