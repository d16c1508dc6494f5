# Installed and built in a copy, since package managers and build steps write into the folder that they work in.
RUN mkdir -p /usr/local/lib/built && cp -a @project@ /usr/local/lib/built/@name@ && cd /usr/local/lib/built/@name@ \
 && node /tmp/install_npm.js @project@ @options@ \
 && rm -rf /tmp/install_npm.js /root/.npm /root/.cache /root/.yarn /usr/local/share/.cache /root/.local/share/pnpm/store
