# Installed and built in a copy, since package managers rewrite the files that they find; only what is new comes back.
RUN cp -a @project@ /tmp/source && cd /tmp/source \
 && node /tmp/install_npm.js @project@ @options@ \
 && rm -rf /tmp/source /tmp/install_npm.js /root/.npm /root/.cache /root/.yarn /usr/local/share/.cache /root/.local/share/pnpm/store
