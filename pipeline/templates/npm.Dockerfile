# Dependencies for use are installed, those for development are not. They are resolved beside the tree, since npm rewrites
# the files it finds, and development dependencies are taken out first: npm resolves, and so fails on, what it omits.
RUN mkdir /tmp/npm && cd /tmp/npm \
 && if [ -f @workdir@/package.json ]; then cp @workdir@/package.json . && npm pkg delete scripts; fi \
 && for lock in package-lock.json npm-shrinkwrap.json; do if [ -f "@workdir@/$lock" ]; then cp "@workdir@/$lock" .; fi; done \
 && if [ -f package-lock.json ] || [ -f npm-shrinkwrap.json ]; then npm ci --omit=dev --no-audit --no-fund; \
    elif [ -f package.json ] && node -e 'process.exit(Object.keys(require("./package.json").dependencies || {}).length ? 0 : 1)'; then \
      npm pkg delete devDependencies && npm install --omit=dev --no-audit --no-fund; \
    fi \
 && if [ -d node_modules ]; then mv node_modules @workdir@/; fi \
 && rm -rf /tmp/npm /root/.npm
RUN node /tmp/link.js && rm /tmp/link.js
